"""What gates and plans look at: one frozen value, of which a part may not be known yet."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.decide.buffer import Buffer
from orchestrator.decide.treatment import Choice
from state.model import Assignment, OperationKind, QueryFact, RunnerFact, TopicPartition
from state.protocol import CheckpointReport, Treatment
from state.settings import Policy, Query, Resume, Route
from streaming.log import TopicFacts
from streaming.resume.model import Resolution
from streaming.resume.reset import Goto
from streaming.resume.truncation import Standing


@dataclass(frozen=True, kw_only=True, slots=True)
class Standby:
    """What the standby answered to one bounded question about its topics."""

    reachable: bool
    seconds: float
    limit_seconds: float
    error: str = ""
    topics: Mapping[str, TopicFacts] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reset:
    """Where a query goes on in one partition whose log was cut or made anew before its position."""

    source: str
    partition: TopicPartition
    offset: int
    """Position up to which it was read."""
    divergence: int | None
    """First offset at which the log is not the one that was read; None where that is not known."""
    goto: Goto | None
    """None: the standby holds what was read, and the query goes on behind it."""
    policy: str
    """By which it goes there."""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Everything a gate may judge; None means not known at this point, and then no gate speaks of it."""

    kind: OperationKind
    query: str
    settings: Query
    policy: Policy
    source: str
    target: str
    expect_active: str | None = None
    consents: frozenset[str] = frozenset()
    attended: bool = True
    """A person asked, and takes upon himself what nobody can tell; automatic mode has nobody for that."""
    route: Route | None = None
    assignment: Assignment | None = None
    fact: QueryFact | None = None
    """What a runner last reported of the query, under whatever epoch."""
    stranger: str | None = None
    """An operation that holds the checkpoint in use, as a runner found, and that the store does not know."""
    open_operation: str | None = None
    runners: tuple[RunnerFact, ...] | None = None
    """Eligible runners with a fresh heartbeat."""
    standby: Standby | None = None
    topics: Mapping[str, str | None] | None = None
    """Old topic to its name on the standby; None where the route does not name it."""
    report: CheckpointReport | None = None
    stateful: bool | None = None
    resolution: Resolution | None = None
    """Of the end of batch N."""
    planned_resolution: Resolution | None = None
    """Of the end of the planned batch N+1."""
    standings: tuple[Standing, ...] | None = None
    """What became of the query's positions in the cluster that they were read from; None when nothing tells."""
    resets: tuple[Reset, ...] | None = None
    """Of those positions whose log was cut, where they go on; None as long as the standby was not asked."""
    buffers: tuple[Buffer, ...] = ()
    """Of each topic, where they are measured."""
    choice: Choice | None = None
    fence: str | None = None
    """``pending`` or the evidence."""
    epoch: int | None = None
    operation: str | None = None

    @property
    def fresh(self) -> bool:
        return self.settings.resume is Resume.FRESH

    @property
    def resumes_at(self) -> Resolution | None:
        """Where the query goes on: the end of N, or of N+1 when it was promoted."""
        if self.choice is not None and self.choice.treatment is Treatment.PROMOTE:
            return self.planned_resolution
        return self.resolution
