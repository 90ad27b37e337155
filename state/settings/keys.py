"""The configuration as frozen, typed groups: every key with its unit, default and reason.

Declared once, here, because all layers read it; loaded from YAML, secrets resolved and mistakes reported by
``orchestrator.config.load``. Unknown keys are mistakes. Durations are written ``500ms``, ``1s``, ``15m``, ``24h`` or
as a plain number of seconds, and are kept as ``timedelta``.
"""

from collections.abc import Collection, Iterable
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from state.settings import shared_applications
from state.settings.canonical import mapping
from state.settings.cluster_endpoints import expanded
from state.settings.frozen import Settings
from state.settings.key_rules import contradictions
from state.settings.replicators import Replicator
from state.settings.security import Security
from state.settings.values import (
    Address,
    Buffer,
    ClusterId,
    ControllerUrl,
    Duration,
    LabelValue,
    Listen,
    Name,
    Pattern,
    Pipeline,
    between,
    login_mistakes,
)


class Resume(StrEnum):
    """How a query continues after a move."""

    AUTO = "auto"
    """``switch`` where the companion is in Spark, else ``carry``."""
    SWITCH = "switch"
    """On the same checkpoint: the companion's source changes its cluster, and nothing is copied."""
    CARRY = "carry"
    """With a copy of the checkpoint, in which the new cluster's offsets stand."""
    FRESH = "fresh"
    """With a new checkpoint."""


class Sink(StrEnum):
    """What a repeated record or batch does to the sink of a query."""

    KEYED = "keyed"
    """A repeat overwrites the same row."""
    BATCH_ID = "batch-id"
    """The sink drops a batch whose id it has seen: file sink, Delta with a ``txnAppId`` of your own, home-made. The
    formats ``delta`` and ``iceberg`` go by the query id too, which a move changes: what they may get twice is
    forecast as for ``append``."""
    APPEND = "append"
    """A repeat stays visible."""


class MethodName(StrEnum):
    """The methods of finding a place on the standby, in their order of preference (``docs/places.md``)."""

    IDENTITY = "identity"
    EXACT = "exact"
    SYNCED = "synced"
    TIMESTAMP = "timestamp"
    SEGMENT = "segment"
    CLOSEST = "closest"
    EARLIEST = "earliest"
    LATEST = "latest"
    FAIL = "fail"


class SchemaRegistry(Settings):
    """The registry that knows what schema ids in a cluster's records mean; the API is Confluent's.

    The password is by reference (``env:NAME`` or ``file:PATH``), and read by each request.
    """

    url: Annotated[str, Field(pattern=r"^https?://[^/@\s]+(/[^@\s]*)?$")]
    """Without user and password; two clusters with one URL have one registry."""
    username: str | None = None
    password: SecretStr | None = None
    ca: Path | None = None
    """Authority that signed the registry's certificate (PEM); None: those of this system."""

    @model_validator(mode="after")
    def _username_and_password(self) -> Self:
        if mistakes := login_mistakes(self.url, self.username, self.password):
            raise ValueError("\n".join(mistakes))
        return self


class Cluster(Settings):
    """A Kafka cluster by its name."""

    bootstrap: Annotated[tuple[Address, ...], Field(min_length=1)]
    id: ClusterId | None = None
    """What ``kafka-cluster.sh cluster-id`` prints. Without it the first id seen under this name is remembered; either
    way nothing continues where the servers lead to another cluster.
    """
    ids: dict[Name, ClusterId] | None = None
    """Of an endpoint that leads to one of several clusters, and to another after its own failover: their ids by name.
    Routes and queries name these clusters, and not the endpoint.
    """
    endpoint: Name | None = None
    """The endpoint by which this cluster is reached, where ``ids`` names it there; ``config show`` prints it."""
    security: Security = Security()
    connections_per_second: Annotated[int, Field(ge=1)] | None = None
    """New connections that the cluster takes in a second. Each process of Tideover keeps below it, with probes first;
    ``check`` compares it with what a move of everything opens. None: no limit is known."""
    schema_registry: SchemaRegistry | None = None
    """Used by ``check`` alone: whether ids in copied records mean the same here; None: that stays unknown."""

    @model_validator(mode="after")
    def _of_an_endpoint(self) -> Self:
        if self.endpoint is not None and self.id is None:
            raise ValueError("endpoint: a cluster behind an endpoint needs its id")
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
    """The topic on ``to`` in which heartbeats written on ``from`` arrive, as any record does: ``east.heartbeats``."""
    offset_syncs: str | None = None
    """MirrorMaker 2's topic of offset syncs, as it is called on ``to`` (method ``synced``): with
    ``offset-syncs.topic.location=target`` that is ``mm2-offset-syncs.<from's alias>.internal``."""
    rewrites_schema_ids: bool = False
    """The replicator gives copies the schema ids of the other registry, so their bytes differ; else ids travel."""
    keeps_offsets: bool = False
    """The replicator is said to copy bytes and offsets (method ``identity``, which still wants proof)."""
    replicator: Replicator | None = None
    """What copies; None: MirrorMaker 2, or any that ``keeps_offsets`` describes."""

    @model_validator(mode="after")
    def _as_its_kind_copies(self) -> Self:
        known = self.replicator
        if known is None:
            return self
        mistakes = []
        if known.keeps_offsets is not self.keeps_offsets:
            mistakes.append(f"keeps_offsets: {known.kind} wants {str(known.keeps_offsets).lower()}")
        if known.keeps_offsets and self.offset_syncs is not None:
            mistakes.append(f"offset_syncs: remove it, because copies of {known.kind} are at the same offsets")
        if mistakes:
            raise ValueError("\n".join(mistakes))
        return self

    @model_validator(mode="after")
    def _heartbeats_travelled(self) -> Self:
        if self.heartbeats == "heartbeats":
            raise ValueError(
                "heartbeats: MirrorMaker 2 writes the plain topic 'heartbeats' on the target itself, so it proves "
                f"nothing of {self.source}; name the replicated one, such as {self.source}.heartbeats"
            )
        return self


class Spark(Settings):
    """The driver's Spark session."""

    master: str = "local[*]"
    conf: dict[str, str | int | float | bool] = Field(default_factory=dict)
    master_ui: str | None = None
    """Web address of a standalone master, or those of YARN's ResourceManagers, separated by commas. They are queried
    for whether a lost driver has ended: proof for a fence, and for the name of an application."""

    def brings(self, artifact: str) -> bool:
        """Whether the settings name a jar of their own for this artifact, so that none is added."""
        return any(artifact in str(self.conf.get(key, "")) for key in ("spark.jars.packages", "spark.jars"))

    @model_validator(mode="after")
    def _query_known_managers_only(self) -> Self:
        """Where it is set its answer is proof and nothing else, and Kubernetes does not answer so."""
        if self.master_ui is not None and self.master.startswith("k8s"):
            raise ValueError(f"master_ui needs a standalone master or YARN, but master is {self.master}: remove it")
        return self

    @field_validator("master_ui")
    @classmethod
    def _is_web_address(cls, value: str | None) -> str | None:
        for each in [] if value is None else value.split(","):
            if not each.strip().startswith(("http://", "https://")):
                raise ValueError(f"{each.strip() or value} is no web address: begin it with http:// or https://")
        return value


class RunnerSettings(Settings):
    """A process that hosts queries (``tideover run --name``)."""

    site: str = "default"


_WHERE_IT_READS = frozenset(
    {"kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign"}
    | {"startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"}
)
_WHERE_IT_WRITES = frozenset({"kafka.bootstrap.servers", "topic", "checkpointlocation"})


def _leave_to_us(options: Iterable[str], ours: Collection[str]) -> None:
    """A query that names its own cluster would stay there when it is moved. Spark's options know no case."""
    named = [key for key in options if key.lower() in ours]
    if named:
        raise ValueError(
            "\n".join(
                f"options.{key} is set by Tideover, because it changes with the cluster: remove it" for key in named
            )
        )


def _require_own_group(options: Iterable[str]) -> None:
    """Spark's ``InternalKafkaConsumerPool`` ties a group and a partition to one set of parameters while its JVM lives.

    If a query of such a group is moved inside its driver, or started again with a new password, it fails each time. The
    message holds the old parameters and the new ones. A group of its own is what Spark makes for every start.
    """
    named = [key for key in options if key.lower() == "kafka.group.id"]
    if named:
        raise ValueError(
            f"options.{named[0]} cannot be used: Spark ties a group's consumers to one cluster and one password until "
            "its driver ends, so the query could not be moved; use groupIdPrefix"
        )


class Source(Settings):
    """One Kafka source of a query."""

    topics: tuple[str, ...] = ()
    pattern: Pattern | None = None
    """``subscribePattern``; instead of ``topics``."""
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    starting: Literal["earliest", "latest"] = "earliest"

    @model_validator(mode="after")
    def _topics_or_pattern(self) -> Self:
        if bool(self.topics) == (self.pattern is not None):
            raise ValueError("name either topics or a pattern")
        _leave_to_us(self.options, _WHERE_IT_READS)
        _require_own_group(self.options)
        return self

    @property
    def least_tasks(self) -> int:
        """Spark splits partitions until it has ``minPartitions`` tasks, each with its own slot; 0 where none is set."""
        wanted = next((value for key, value in self.options.items() if key.lower() == "minpartitions"), 0)
        return int(wanted) if str(wanted).isdigit() else 0

    @property
    def read_committed(self) -> bool:
        """Whether it reads only what is committed, as its options say; Spark's options know no case."""
        level = next((each for key, each in self.options.items() if key.lower() == "kafka.isolation.level"), None)
        return str(level).lower() == "read_committed"


ACTIVE = "active"
"""In place of a cluster's name: the one that the query reads."""


class Output(Settings):
    """A Kafka sink whose bootstrap servers the runner sets; of an attached query also batches written to that topic."""

    cluster: str = ACTIVE
    """``active``: the cluster that the query reads from; or a cluster's name."""
    topic: str
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_leave_the_place_to_us(self) -> Self:
        _leave_to_us(self.options, _WHERE_IT_WRITES)
        return self

    def cluster_with(self, active: str) -> str:
        """The cluster that is written to while the query reads ``active``."""
        return active if self.cluster == ACTIVE else self.cluster


class Policy(Settings):
    """What may be decided, and the limits of it."""

    automatic: bool = False
    max_exposure: Duration = timedelta(seconds=60)
    max_replay: Annotated[int, Field(ge=0)] = 1_000_000
    cooldown: Duration = timedelta(hours=1)
    catch_up: Annotated[Duration, between(timedelta(seconds=1), timedelta(hours=1))] = timedelta(seconds=60)
    """How long a switchover waits, with the query stopped, until the standby has every record that the query has read;
    then the query goes back to where it was."""
    outage_patience: Annotated[Duration, between(timedelta(0), timedelta(days=1))] = timedelta(minutes=15)
    """How long a running query with ``resume: switch`` waits for a cluster that has fallen silent, before it fails and
    is started again. A person who was woken decides within that time. A start has new connections, which help where
    what is dead is not the cluster but the way to it. With 0 it does not wait at all, as with the other ways to
    resume."""
    catch_up_batch: Annotated[int, Field(ge=1)] | None = None
    """Records of a source that a batch takes at most until a query with ``resume: switch`` has caught up behind a
    start, a move or a silence of its cluster. Else the first batch takes all of an outage. None: no limit."""
    recut_after: Annotated[int, Field(ge=2, le=1000)] = 3
    """After how many runs that ended in the same batch, without a commit of it, the batch is cut to
    ``catch_up_batch``. One run may end for any reason, and a second one behind a host that is short of memory; three
    in a row in one batch are the batch's doing."""
    on_no_match: Literal["closest", "earliest", "latest", "fail"] = "fail"


class Timeline(Settings):
    """How finely it is remembered what a query had read at which time, and for how long."""

    step: Annotated[Duration, between(timedelta(seconds=1), timedelta(hours=1))] = timedelta(minutes=1)
    """Of each step one place per partition is kept: 13 MB for a day of 3,500 partitions at minute steps."""
    keep: Annotated[Duration, between(timedelta(hours=1), timedelta(days=7))] = timedelta(hours=24)


_Command = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class Commands(Settings):
    """The commands of an application without anything of Tideover's in it: each a list of words, no line for a shell.

    ``{bootstrap}``, ``{cluster}``, ``{topics}``, ``{checkpoint}``, ``{epoch}`` and ``{query}`` are replaced.
    """

    start: _Command
    """Starts it on the cluster that it names, and returns."""
    stop: _Command
    """Has it stopped."""
    status: _Command
    """Ends with 0 while it runs, and with 3 when it has ended; any other code is no answer."""

    @model_validator(mode="after")
    def _start_names_the_cluster(self) -> Self:
        if not any(name in word for word in self.start for name in ("{bootstrap}", "{cluster}")):
            raise ValueError("start: give it {bootstrap} or {cluster}, else it would read the cluster that was left")
        return self


class ExternalApplication(Commands):
    """Such an application, as each of its queries has it."""

    name: Name | None = None
    """Under which it is declared in ``applications``; all queries with it move together. None: it has this query alone.
    """


_OF_PIPELINES = ("settings", "settings_by_cluster", "trigger", "spark")
"""Keys of a query that a runner builds."""


class Query(Settings):
    """A Spark streaming query that Tideover owns."""

    pipeline: Pipeline | None = None
    """A function that a runner hosts: ``module:function``."""
    attach: Name | None = None
    """Instead of ``pipeline``: the application that starts this query itself, by its name. The application is the
    runner of the query and is declared under ``runners``; the query is known by its ``checkpoint``."""
    application: ExternalApplication | None = None
    """Instead of both: the commands of an application that starts this query itself, and has nothing of Tideover's in
    it. Where that has several queries, the name of one under ``applications``."""
    settings: dict[str, object] = Field(default_factory=dict)
    settings_by_cluster: dict[Name, dict[str, object]] = Field(default_factory=dict)
    """By cluster that the query reads from, what replaces a key of ``settings``: the address of a schema registry."""
    sources: Annotated[dict[Name, Source], Field(min_length=1)]
    clusters: Annotated[tuple[Name, ...], Field(min_length=2)]
    """Home first."""
    runners: tuple[Name, ...] = ()
    """Those that may host it; of an attached query its application, which is not written here."""
    checkpoint: str
    """Base folder on a local or shared disk or on HDFS (``values.py``); never a checkpoint itself once moved."""
    resume: Resume = Resume.AUTO
    methods: tuple[MethodName, ...] = tuple(MethodName)
    sink: Sink = Sink.APPEND
    replay_safe: bool = False
    safe_columns: tuple[Literal["offset", "partition", "topic", "timestamp", "timestampType", "headers"], ...] = ()
    """Columns of Kafka's that this query may use although a move changes their values: it is right with any. None by
    default, because the plan shows that a column is used, and not whether the result depends on one cluster."""
    home_offsets: bool = False
    """The pipeline gets offsets that continue from those of its home cluster, whichever cluster it reads: for logic
    that uses the column ``offset``. Only with the companion (``resume: switch``): a copied checkpoint loses the
    count."""
    buffer: Buffer = timedelta(minutes=15)
    """X of ``T - X`` where time decides; ``measured``: from the disorder of times that was seen."""
    trigger: Duration = timedelta(seconds=1)
    output: Output | None = None
    batch_reads: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Topics that the application of an attached query reads as a batch (``spark.read``), by their names at home: such
    a read follows the query from cluster to cluster."""
    after: tuple[Name, ...] = ()
    """Queries that a planned move takes to the other cluster first. Where ``output`` names a topic that this query
    reads, that is found without this key; a pipeline that writes to Kafka in its own code does not show it."""
    spark: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Session settings of this query alone, such as ``spark.sql.shuffle.partitions``."""
    labels: dict[Name, LabelValue] = Field(default_factory=dict)
    """What it belongs to, for verbs that are about some of many: ``--label team=billing``."""
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    """Of queries that move or start together the higher ones begin first, and equal ones in the order of the
    configuration. One that is upstream of another comes before it, and is as urgent."""
    policy: Policy | None = None
    timeline: Timeline | None = None

    @field_validator("application", mode="before")
    @classmethod
    def _is_declared(cls, value: object) -> object:
        if isinstance(value, str):  # a declared one has been replaced by its commands
            raise ValueError(f"{value!r} is not declared under applications")  # noqa: TRY004 - pydantic reports no other
        return value

    @model_validator(mode="after")
    def _pipeline_or_attach(self) -> Self:
        if sum(each is not None for each in (self.pipeline, self.attach, self.application)) != 1:
            raise ValueError("name one of pipeline, attach and application")
        if self.application is not None:
            self._check_external()
        if self.attach is None:
            if not self.runners:
                raise ValueError("runners: name at least one")
            if self.batch_reads:
                raise ValueError("batch_reads: only with attach; a pipeline gets all that it reads from its sources")
            return self
        of_pipelines = [key for key in _OF_PIPELINES if key in self.model_fields_set]
        mistakes = [f"{key}: remove it, because application {self.attach} decides that itself" for key in of_pipelines]
        if self.output is not None and self.output.options:
            mistakes.append(f"output.options: remove them, because application {self.attach} sets them itself")
        if self.runners not in {(), (self.attach,)}:
            mistakes.append(f"runners: remove it, because application {self.attach} is the runner")
        if self.resume not in {Resume.AUTO, Resume.SWITCH}:
            mistakes.append(
                f"resume: an attached query keeps its checkpoint, so only switch is possible, not {self.resume}"
            )
        if mistakes:
            raise ValueError("\n".join(mistakes))
        object.__setattr__(self, "runners", (self.attach,))
        return self

    def _check_external(self) -> None:
        """Its application decides all that a runner would set. Raises ``ValueError``."""
        given = [key for key in (*_OF_PIPELINES, "output", "home_offsets") if key in self.model_fields_set]
        mistakes = [f"{key}: remove it, because the application decides that itself" for key in given]
        if self.resume not in {Resume.AUTO, Resume.SWITCH}:
            mistakes.append(
                f"resume: an application keeps its checkpoint, so only switch is possible, not {self.resume}"
            )
        if len(self.runners) > 1:
            mistakes.append("runners: name one, because the commands say what runs as it is seen from there")
        if mistakes:
            raise ValueError("\n".join(mistakes))

    def settings_on(self, cluster: str) -> dict[str, object]:
        """What the pipeline is handed while it reads from a cluster; a key is replaced as a whole."""
        return self.settings | self.settings_by_cluster.get(cluster, {})

    def resume_with(self, *, companion: bool) -> Resume:
        """How it continues, with or without the companion in the Spark of any runner; never ``AUTO``."""
        if self.pipeline is None:
            return Resume.SWITCH
        if self.resume is not Resume.AUTO:
            return self.resume
        return Resume.SWITCH if companion else Resume.CARRY

    @property
    def committed_only(self) -> frozenset[str]:
        """The sources that read only what is committed."""
        return frozenset(name for name, source in self.sources.items() if source.read_committed)


_LookTime = Annotated[Duration, between(timedelta(milliseconds=50), timedelta(minutes=1))]


class Detection(Settings):
    """The layered look at a cluster: a verdict DOWN needs ``failures`` looks in a row that failed.

    A look begins every ``interval``, also while earlier ones still wait, up to ``failures`` at a time. So an outage
    shorter than ``(failures - 1) × interval`` is never DOWN, nor a freeze that is shorter by ``timeout`` more.
    """

    interval: _LookTime = timedelta(milliseconds=500)
    timeout: _LookTime = timedelta(seconds=1)
    failures: Annotated[int, Field(ge=1, le=100)] = 3

    @property
    def after_kill(self) -> timedelta:
        """From a cluster that refuses connections to DOWN, at the latest."""
        return self.failures * self.interval

    @property
    def after_freeze(self) -> timedelta:
        """From a cluster that falls silent to DOWN, at the latest."""
        return self.after_kill + self.timeout


class OperationSettings(Settings):
    """How many queries are moved side by side; they are begun in the order in which they are declared.

    The others run on until their turn comes. A move that takes longer than 10 s lets the next one begin.
    """

    at_once: Annotated[int, Field(ge=1, le=1000)] = 128
    waves: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """How many queries of one command move first, how many next, and so on; the rest follow in one more wave.

    A wave begins when every move before it is done; where one was not, the later waves stay where they are. None: all
    at once. Automatic failover knows no waves: its cluster is down."""


class Retention(Settings):
    """How long what is over is kept; a cool-down that has not ended is never forgotten."""

    history: Annotated[Duration, between(timedelta(days=1), timedelta(days=36_500))] = timedelta(days=90)
    """Lines of history, closed operations with all that belongs to them, and answered requests."""
    operations: Annotated[int, Field(ge=1)] = 20
    """How many of each query stay however old they are."""
    samples: Annotated[Duration, between(timedelta(hours=1), timedelta(days=30))] = timedelta(hours=24)
    """What each check measured of a query's standby, one row a minute and query: what the desk plots."""
    checkpoints: Annotated[Duration, between(timedelta(hours=1), timedelta(days=36_500))] | None = None
    """How long after a query has left it a checkpoint is kept; None: for ever."""
    keep_checkpoints: Annotated[int, Field(ge=1)] = 2
    """How many of those that each query has left stay however old they are."""


class EvidenceSettings(Settings):
    """Where the evidence of each operation goes, beside the store, which always keeps it."""

    folder: Path | None = None
    """The leading controller writes each document there, as JSON and as HTML; None: nowhere."""


class HttpTls(Settings):
    """The server's certificate, with those that signed it, and its key; PEM."""

    cert: Path
    key: Path
    clients: Path | None = None
    """Authorities whose clients alone are let in, beside their token; None: no certificate is required."""


class HttpToken(Settings):
    """A holder of a token; the name is the actor in the history."""

    name: Name
    role: Literal["viewer", "operator", "runner"]
    token: SecretStr
    """By reference, read when the controller starts."""
    runner: Name | None = None
    """Of the role ``runner``: the runner or application for which it speaks."""

    @model_validator(mode="after")
    def _is_of_a_runner(self) -> Self:
        if (self.role == "runner") != (self.runner is not None):
            raise ValueError("runner: name the runner or application for the role runner, and for no other role")
        return self


class Http(Settings):
    """HTTP of every controller; ``http: off`` is the same as ``listen: off``.

    Off unless the file sets it: an upgrade must open no port. A port on loopback, too, shows the status to every user
    of its host, and two controllers on one host would want the same one.
    """

    listen: Listen = "off"
    tls: HttpTls | None = None
    behind_proxy: bool = False
    """A proxy on the way encrypts, so that ``tls`` may be left out though other hosts reach ``listen``."""
    tokens: tuple[HttpToken, ...] = ()
    """Without any, everybody on this host may look, and no other host can."""

    @model_validator(mode="before")
    @classmethod
    def _off(cls, value: object) -> object:
        return {"listen": "off"} if value == "off" else value

    @model_validator(mode="after")
    def _listen_is_said(self) -> Self:
        if "listen" not in self.model_fields_set and (self.tokens or self.tls):
            raise ValueError("beside tokens and tls, listen is required, such as 127.0.0.1:8340; or off")
        return self

    @property
    def is_on(self) -> bool:
        """Whether anything listens."""
        return self.listen != "off"


class Controller(Settings):
    """Where a runner reaches the controllers that write to the store for it, in place of the key ``store``."""

    urls: Annotated[tuple[ControllerUrl, ...], Field(min_length=1)]
    """One for each controller; a call goes to the first that answers."""
    token: SecretStr
    """By reference, of the role ``runner``; read for each call."""
    ca: Path | None = None
    """Authorities that signed the controllers' certificates; None: those that the system trusts."""
    cert: Path | None = None
    """Of this runner, where the controllers want one (``http.tls.clients``); PEM."""
    key: Path | None = None

    @model_validator(mode="after")
    def _cert_has_key(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key are given together")
        return self


NoticeKind = Literal["cluster", "operation", "readiness", "automatic", "drill"]
NoticeSeverity = Literal["info", "warning", "critical"]


class NotifyTarget(Settings):
    """A receiver of notices of incidents."""

    name: Name
    """Under this name the store keeps how much it has got."""
    url: SecretStr
    """As apprise writes it (``mailto://``, ``json://``, ``slack://`` ...); by reference, read when the controller
    starts, for most of these hold a secret."""
    severity: NoticeSeverity = "warning"
    """What weighs less is not sent."""
    kinds: dict[NoticeKind, NoticeSeverity | Literal["off"]] = Field(default_factory=dict)
    """For a kind of incident, another one than ``severity``."""

    def severity_of(self, kind: str) -> NoticeSeverity | None:
        """From which severity on this kind is sent; None: never."""
        own = {str(name): least for name, least in self.kinds.items()}.get(kind, self.severity)
        return None if own == "off" else own


class Notify(Settings):
    """Notices to people about incidents; the controller that leads sends them."""

    targets: tuple[NotifyTarget, ...] = ()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [target.name for target in self.targets]
        if len(set(names)) < len(names):
            raise ValueError("targets: two have the same name")
        return self


class Traces(Settings):
    """Spans of operations and steps, for a collector."""

    otlp: Annotated[str, Field(pattern=r"^https?://[^/]+/")] | None = None
    """Where OTLP over HTTP takes traces, path included; None: nowhere."""


def _said(group: Settings) -> dict[str, object]:
    """What is in the file, without defaults."""
    return {key: getattr(group, key) for key in group.model_fields_set}


class Tideover(Settings):
    """The whole configuration file."""

    store: SecretStr = SecretStr("")
    """SQLAlchemy URL: ``sqlite:///path`` (one host) or ``postgresql+psycopg://...`` (several); or the file with one.
    Empty where ``controller`` is given instead."""
    controller: Controller | None = None
    """In place of ``store``, for a runner or an application that must not have the store's password."""
    clusters: Annotated[dict[Name, Cluster], Field(min_length=1)]
    routes: tuple[Route, ...] = ()
    spark: Spark = Spark()
    runners: dict[Name, RunnerSettings] = Field(default_factory=dict)
    applications: dict[Name, Commands] = Field(default_factory=dict)
    """Those that have several queries and nothing of Tideover's in them, by the name that their queries give."""
    queries: dict[Name, Query] = Field(default_factory=dict)
    detection: Detection = Detection()
    policy: Policy = Policy()
    operations: OperationSettings = OperationSettings()
    retention: Retention = Retention()
    timeline: Timeline = Timeline()
    evidence: EvidenceSettings = EvidenceSettings()
    http: Http = Http()
    notify: Notify = Notify()
    traces: Traces = Traces()

    def companions(self, query: str) -> tuple[str, ...]:
        """The other queries of the same application, in their order: they are stopped, moved and started with it."""
        own = self.queries[query].application if query in self.queries else None
        if own is None or own.name is None:
            return ()
        others = ((name, each.application) for name, each in self.queries.items() if name != query)
        return tuple(name for name, each in others if each is not None and each.name == own.name)

    @property
    def attached(self) -> tuple[str, ...]:
        """The applications to which queries are attached, by name."""
        return tuple(sorted({query.attach for query in self.queries.values() if query.attach is not None}))

    def policy_of(self, query: str) -> Policy:
        """The common policy, with what the query's own says differently."""
        own = self.queries[query].policy
        return self.policy if own is None else self.policy.model_copy(update=_said(own))

    def timeline_of(self, query: str) -> Timeline:
        """The common timeline, with what the query's own says differently."""
        own = self.queries[query].timeline
        return self.timeline if own is None else self.timeline.model_copy(update=_said(own))

    def behind_endpoint(self, cluster: str) -> dict[str, str]:
        """The names of the other clusters behind the same endpoint, by id; empty where it leads to this one alone."""
        own = self.clusters[cluster].endpoint
        others = [(name, each) for name, each in self.clusters.items() if name != cluster and own is not None]
        return {each.id: name for name, each in others if each.endpoint == own and each.id is not None}

    def route(self, source: str, target: str) -> Route | None:
        """The declared replication from one cluster to another, or nothing."""
        return next((route for route in self.routes if (route.source, route.target) == (source, target)), None)

    @model_validator(mode="before")
    @classmethod
    def _endpoints_are_their_clusters(cls, raw: object) -> object:
        clusters = raw.get("clusters") if isinstance(raw, dict) else None
        return {**mapping(raw), "clusters": expanded(clusters)} if isinstance(clusters, dict) else raw

    @model_validator(mode="before")
    @classmethod
    def _applications_are_their_commands(cls, raw: object) -> object:
        groups = mapping(raw)
        applications, queries = mapping(groups.get("applications")), groups.get("queries")
        if not isinstance(queries, dict):
            return raw
        return {**groups, "queries": shared_applications.expanded(applications, queries)}

    @model_validator(mode="after")
    def _groups_agree(self) -> Self:
        mistakes = list(contradictions(self.model_dump(by_alias=True)))
        if mistakes:
            raise ValueError("\n".join(mistakes))
        return self
