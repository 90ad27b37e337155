"""The configuration as frozen, typed groups: every key with its unit, default and reason.

Declared once, here, because all layers read it; loaded from YAML, secrets resolved and mistakes reported by
``orchestrator.config``. Unknown keys are mistakes. Durations are written ``500ms``, ``1s``, ``15m``, ``24h`` or as a
plain number of seconds, and are kept as ``timedelta``.
"""

import re
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h|d)?")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


def parse_duration(value: object) -> timedelta:
    """Turn ``"500ms"``, ``"15m"`` or a number of seconds into a ``timedelta``; anything else is a ``ValueError``."""
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    if match is None:
        raise ValueError(f"{value!r} is not a duration: write a number with ms, s, m, h or d, for example 15m")
    return timedelta(seconds=float(match["number"]) * _UNIT_SECONDS[match["unit"]])


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]


class Settings(BaseModel):
    """A group of settings: frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Resume(StrEnum):
    """How a query goes on after a move."""

    CARRY = "carry"
    FRESH = "fresh"


class Sink(StrEnum):
    """What a repeated record or batch does to the sink of a query."""

    KEYED = "keyed"
    """A repeat overwrites the same row."""
    BATCH_ID = "batch-id"
    """The sink drops a batch whose id it has seen (file sink, Delta ``txnVersion``, home-made)."""
    APPEND = "append"
    """A repeat stays visible."""


class MethodName(StrEnum):
    """The methods of finding a place on the standby, in their order of preference (DESIGN section 4)."""

    IDENTITY = "identity"
    EXACT = "exact"
    SYNCED = "synced"
    TIMESTAMP = "timestamp"
    SEGMENT = "segment"
    CLOSEST = "closest"
    EARLIEST = "earliest"
    LATEST = "latest"
    FAIL = "fail"


class Sasl(Settings):
    """SASL credentials; secrets only by reference (``env:NAME`` or ``file:PATH``), resolved at load."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
    username: str | None = None
    password: SecretStr | None = None


class Security(Settings):
    """How to talk to a cluster's listeners: Kafka's own ``security.protocol`` and its files (PEM)."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    key_password: SecretStr | None = None
    check_hostname: bool = True
    sasl: Sasl | None = None

    @model_validator(mode="after")
    def _sasl_matches_protocol(self) -> Self:
        if self.protocol.startswith("SASL") and self.sasl is None:
            raise ValueError(f"protocol {self.protocol} needs a sasl group")
        if self.sasl is not None and not self.protocol.startswith("SASL"):
            raise ValueError(f"a sasl group needs protocol SASL_PLAINTEXT or SASL_SSL, not {self.protocol}")
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key belong together")
        return self


class Cluster(Settings):
    """A Kafka cluster by its name."""

    bootstrap: Annotated[tuple[str, ...], Field(min_length=1)]
    security: Security = Security()

    @model_validator(mode="after")
    def _bootstrap_has_ports(self) -> Self:
        for server in self.bootstrap:
            host, _, port = server.rpartition(":")
            if not host or not port.isdigit():
                raise ValueError(f"bootstrap server {server!r} is not host:port")
        return self


class Route(Settings):
    """Replication from one cluster to another.

    ``topics`` is ``identity``, ``{"prefix": "east."}`` or an explicit map of topic names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    source: Name = Field(alias="from")
    target: Name = Field(alias="to")
    topics: Literal["identity"] | dict[str, str] = "identity"
    heartbeats: str | None = None
    offset_syncs: str | None = None
    keeps_offsets: bool = False
    """The replicator copies bytes and offsets (method ``identity``)."""


class Spark(Settings):
    """The driver's Spark session."""

    master: str = "local[*]"
    conf: dict[str, str | int | float | bool] = Field(default_factory=dict)
    master_ui: str | None = None
    """Web address of a standalone master: asked whether a lost driver's application ended (fence evidence)."""


class Runner(Settings):
    """A process that hosts queries (``tideover run --name``)."""

    site: str = "default"


class Source(Settings):
    """One Kafka source of a query."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """``subscribePattern``; instead of ``topics``."""
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    starting: Literal["earliest", "latest"] = "earliest"

    @model_validator(mode="after")
    def _topics_or_pattern(self) -> Self:
        if bool(self.topics) == (self.pattern is not None):
            raise ValueError("name either topics or a pattern")
        return self


class Output(Settings):
    """A Kafka sink whose bootstrap servers the runner sets."""

    cluster: str = "active"
    """``active``: the cluster that the query reads from; or a cluster's name."""
    topic: str
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)


class Policy(Settings):
    """What may be decided, and the limits of it."""

    automatic: bool = False
    max_exposure: Duration = timedelta(seconds=60)
    max_replay: Annotated[int, Field(ge=0)] = 1_000_000
    cooldown: Duration = timedelta(hours=1)
    on_no_match: Literal["closest", "earliest", "latest", "fail"] = "fail"


class Query(Settings):
    """A Spark streaming query that Tideover owns."""

    pipeline: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
    settings: dict[str, object] = Field(default_factory=dict)
    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    clusters: Annotated[tuple[Name, ...], Field(min_length=2)]
    """Home first."""
    runners: Annotated[tuple[Name, ...], Field(min_length=1)]
    checkpoint: str
    """Base folder on any file system that Spark can use; never used as a checkpoint itself once moved."""
    resume: Resume = Resume.CARRY
    methods: tuple[MethodName, ...] = tuple(MethodName)
    sink: Sink = Sink.APPEND
    replay_safe: bool = False
    buffer: Duration | Literal["measured"] = timedelta(minutes=15)
    trigger: Duration = timedelta(seconds=1)
    output: Output | None = None
    spark: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Session settings of this query alone, such as ``spark.sql.shuffle.partitions``."""
    policy: Policy | None = None


class Detection(Settings):
    """The layered probe: a verdict DOWN needs ``failures`` in a row."""

    interval: Duration = timedelta(milliseconds=500)
    timeout: Duration = timedelta(seconds=1)
    failures: Annotated[int, Field(ge=1, le=100)] = 3


class Http(Settings):
    """The page and API of the controller."""

    listen: str = "127.0.0.1:8340"
    token: SecretStr | None = None


class Tideover(Settings):
    """The whole configuration file."""

    store: SecretStr
    """SQLAlchemy URL: ``sqlite:///path`` (one host) or ``postgresql+psycopg://...`` (several)."""
    clusters: Annotated[dict[Name, Cluster], Field(min_length=1)]
    routes: tuple[Route, ...] = ()
    spark: Spark = Spark()
    runners: dict[Name, Runner] = Field(default_factory=dict)
    queries: dict[Name, Query] = Field(default_factory=dict)
    detection: Detection = Detection()
    policy: Policy = Policy()
    http: Http = Http()

    def policy_of(self, query: str) -> Policy:
        """The query's own policy, or the common one."""
        return self.queries[query].policy or self.policy

    def route(self, source: str, target: str) -> Route | None:
        """The declared replication from one cluster to another, or nothing."""
        return next((route for route in self.routes if (route.source, route.target) == (source, target)), None)

    @model_validator(mode="after")
    def _names_are_declared(self) -> Self:
        mistakes = []
        for index, route in enumerate(self.routes):
            mistakes += [
                f"routes.{index}: cluster {name!r} is not declared"
                for name in (route.source, route.target)
                if name not in self.clusters
            ]
        for name, query in self.queries.items():
            mistakes += [
                f"queries.{name}.clusters: cluster {cluster!r} is not declared"
                for cluster in query.clusters
                if cluster not in self.clusters
            ]
            mistakes += [
                f"queries.{name}.runners: runner {runner!r} is not declared"
                for runner in query.runners
                if runner not in self.runners
            ]
            if query.output and query.output.cluster not in {"active", *self.clusters}:
                mistakes.append(f"queries.{name}.output.cluster: {query.output.cluster!r} is not declared")
        if mistakes:
            raise ValueError("\n".join(mistakes))
        return self
