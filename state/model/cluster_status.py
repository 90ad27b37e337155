"""What is seen of a cluster from one place, and what is believed of it from all of them. Frozen, and pure.

A ``viewpoint`` is an observer: ``controller:NAME``, ``runner:NAME``, ``replicator:east->west``. Every time here
is on the store's clock, so that two processes' words can be put in order; each reporter turns its own monotonic times
into it. A sign of life counts from when it was *produced*: a look that ended well proves that the cluster lived after
the look began, and no more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Layer(StrEnum):
    """The layers of a look, in their order; one is reached when it answered."""

    TCP = "tcp"
    SECURITY = "security"
    """TLS, SASL, and the exchange of API versions: the broker speaks to us as who we are."""
    METADATA = "metadata"
    """The brokers that the cluster counts as alive. Its controllers are not seen: a broker without ZooKeeper writes any
    of these brokers into ``controller_id`` (``KRaftMetadataCache.getRandomAliveBrokerId``), quorum or no quorum."""
    LEADERS = "leaders"
    """Leaders and in-sync replicas of the topics of interest."""
    READ = "read"
    """A leader reported where its log ends; no record is fetched."""


class Fault(StrEnum):
    """Where the reason lies that a layer was not reached."""

    OURS = "ours"
    """Credentials, certificates, permissions, a name that never was right: says nothing of the cluster's health."""
    HERE = "here"
    """This host: no network, no name server. It neither speaks for the cluster nor against it."""
    THEIRS = "theirs"
    """Refused, reset, or silent."""


class Verdict(StrEnum):
    """What is believed of a cluster; only ``GONE`` may be acted upon without a human."""

    UP = "UP"
    DEGRADED = "DEGRADED"
    """It answers, and a part of it does not."""
    SUSPECT = "SUSPECT"
    """It does not answer, but not for long enough; or it answers again, but not yet for long enough."""
    DOWN = "DOWN"
    UNREACHABLE_FROM_HERE = "UNREACHABLE_FROM_HERE"
    """Others still see it."""
    UNKNOWN = "UNKNOWN"
    """Nothing is known, or what was known does not count any more."""
    CONFIG_ERROR = "CONFIG_ERROR"
    """It refuses us."""
    NOT_HERE = "NOT_HERE"
    """Its endpoint leads to another of the clusters that are declared behind it."""


WELL = frozenset({Verdict.UP, Verdict.DEGRADED})
"""Verdicts on a cluster that answers, wholly or in part."""
GONE = frozenset({Verdict.DOWN, Verdict.NOT_HERE})
"""Verdicts on a cluster that queries should leave."""
ELSEWHERE = "not-here"
"""Kind of a look's failure: the endpoint leads to another cluster that is declared behind it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeReport:
    """What one observer last saw of one cluster; one row for each pair."""

    cluster: str
    viewpoint: str
    instance: str
    """The process behind the observer's name."""
    layer: Layer | None
    """The last layer that the newest look reached; None when not even the first, or when there was no look yet."""
    fault: Fault | None
    """None when the newest look reached what it looked for."""
    kind: str | None
    """One stable word for what went wrong: ``refused``, ``silent``, ``reset``, ``name``, ``credential``,
    ``identity``, ``not-here`` ..."""
    text: str
    """The newest look in words; empty when there is nothing to say."""
    retriable: bool | None
    """Whether looking again can help with nothing changed on our side; None when nothing went wrong."""
    latency_ms: float | None
    """Round trip of the metadata question."""
    cluster_id: str | None = None
    """Which cluster answered the newest look, by its own word; None where none did."""
    layers_ms: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds of each ``Layer`` that answered the newest look; 0 where its connection was open before."""
    brokers: int | None = None
    """Brokers that the cluster should have: those it names, and those that hold replicas of the topics of interest."""
    brokers_silent: int | None = None
    partitions: int | None = None
    """Of the topics of interest, as far as they exist."""
    leaderless: int | None = None
    unreadable: int | None = None
    """Partitions whose leader did not answer."""
    under_replicated: int | None = None
    under_min_isr: int | None = None
    """Partitions that a producer with ``acks=all`` cannot write to; None where the limit may not be read."""
    successes_in_a_row: int = 0
    failures_in_a_row: int = 0
    failed_at: tuple[datetime, ...] = ()
    """When the newest failures in a row that are the cluster's began, oldest first; the newest few, not all. With the
    kind ``not-here``, when the looks in a row began that another cluster of the endpoint answered."""
    first_failed_at: datetime | None = None
    """When the first of ``failures_in_a_row`` began."""
    longest_row: int = 0
    """The longest row of failures since it last answered often enough in a row to be trusted."""
    last_ok_at: datetime | None = None
    """When the newest sign of life of the cluster was produced."""
    due_at: datetime | None = None
    """By when a newer one is due while the cluster lives; None where that follows from the pace of looks alone."""
    voided_at: datetime | None = None
    """Set while nothing counts that was seen before: this process was stopped, or its clock jumped."""
    seen_at: datetime
    """When the newest look ended."""

    @property
    def is_of_replicator(self) -> bool:
        """Whether it comes from heartbeats: the cluster lives, whatever its address leads to."""
        return self.viewpoint.startswith("replicator:")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterStatus:
    """The verdict on one cluster as the leading controller last gave it."""

    cluster: str
    verdict: Verdict
    since: datetime
    """When this verdict was first given; kept while it stays the same."""
    down_since: datetime | None
    """When DOWN was first given since the cluster was last UP or DEGRADED; None when it was not. A controller that
    starts or was frozen does not know for a while; that neither ends nor renews it.
    """
    reasons: tuple[str, ...]
    """One sentence each, the most important first."""
    first_failed_at: datetime | None
    """When the first failed look began; None while the cluster answers."""
    leaderless: int | None
    unreadable: int | None
    under_replicated: int | None
    under_min_isr: int | None
    decided_at: datetime
    term: int

    @property
    def detect_seconds(self) -> float | None:
        """From the first look that failed to the verdict DOWN; None while it is not down."""
        if self.verdict is not Verdict.DOWN or self.first_failed_at is None:
            return None
        return round((self.since - self.first_failed_at).total_seconds(), 3)
