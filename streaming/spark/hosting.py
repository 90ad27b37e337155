"""What everything that hosts queries in this process shares."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

import structlog
from pyspark.sql import SparkSession

from state.messages import Offsets, Process
from state.model.entities import Assignment, BucketRules
from state.settings.keys import Query, Resume, Tideover
from state.settings.topics import topics_of
from state.store.runner_store import RunnerStore
from streaming.cluster_log import ClusterLog
from streaming.process import Identity
from streaming.spark.checkpoint.files import CheckpointFiles
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.checkpoint.log_text import Declared
from streaming.spark.checkpoint.mapping import Placed

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Subject:
    """One query under one epoch: what a batch, a position or a log line belongs to."""

    query: str
    epoch: int
    cluster: str
    checkpoint: str
    committed_only: frozenset[str] = frozenset()
    """Its sources that read only what is committed (``isolation.level``)."""
    placed: Placed | None = None
    """Where its row says that it is."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that is quiet, and the newest batches of its checkpoint: the last look at it may have been before them."""

    query: str
    checkpoint: str
    epoch: int | None
    """None where the runner has let go of the run since: then the newest one of this checkpoint is meant."""
    batches: tuple[Batch, ...]


class BatchListener(Protocol):
    """Hears of batches; every method returns at once, but for ``catch_up``."""

    def see(self, subject: Subject, batch: Batch) -> None:
        """A batch was planned or committed."""

    def count(self, subject: Subject, batch: int, rows: dict[str, int]) -> None:
        """Spark reported how many rows a committed batch read, per source."""

    def forget(self, subject: Subject) -> None:
        """The run is over."""

    def catch_up(self, cluster: str, ended: EndedRun | None, seconds: float) -> bool:
        """Wait, at most so long, until the store has the positions of all batches, those that ended a run included.

        Whether it has, or cannot get them any more; False while the store is slow or away.
        """


class NoListener:
    """Hears and forgets: for a process that hosts without tracking."""

    def see(self, subject: Subject, batch: Batch) -> None:
        """Take no notice."""

    def count(self, subject: Subject, batch: int, rows: dict[str, int]) -> None:
        """Take no notice."""

    def forget(self, subject: Subject) -> None:
        """Take no notice."""

    def catch_up(self, cluster: str, ended: EndedRun | None, seconds: float) -> bool:
        """There is nothing to wait for."""
        return True


T = TypeVar("T")


class Shared:
    """What several queries share in this process, by its name: made by the first one that needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, object] = {}

    def of(self, name: str, kind: type[T], make: Callable[[], T]) -> T:
        """The one of this name. Raises ``TypeError`` where it is of another kind."""
        with self._lock:
            found = self._made.get(name) or make()
            self._made[name] = found
        if not isinstance(found, kind):
            raise TypeError(f"{name} is shared as {type(found).__name__}")
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosting:
    """The process: its settings, its session, its doors to the outside."""

    settings: Tideover
    runner: str
    instance: str
    spark_master: str
    application_id: str
    pod: str | None = None
    """As that of ``RunnerFact``."""
    base: Path
    """Folder of the configuration: relative paths are relative to it."""
    here: Identity
    session: SparkSession
    companion: bool = False
    """Whether this Spark has it; looked up once, for a heartbeat must not wait for the JVM."""
    companion_missing: str = ""
    """Why it has none, in one sentence."""
    files: CheckpointFiles
    store: RunnerStore
    listener: BatchListener
    stranger: Callable[[Assignment], str | None] = lambda row: None
    """Why a query may not be run where its row says: another cluster has the name. Checked at each start and look."""
    is_elsewhere: Callable[[str], bool] = lambda cluster: False
    """Whether the endpoint of a cluster leads to another of its declared clusters, by the newest look."""
    cluster_id: Callable[[str], str | None] = lambda cluster: None
    """The id that a cluster has, as configured, as pinned or as first seen; None while none is known."""
    is_silent: Callable[[str], bool] = lambda cluster: False
    """Whether the newest look at a cluster was not answered, for a reason that is the cluster's."""
    log_of: Callable[[str], ClusterLog] | None = None
    """A cluster's log, to compare what an application reads that says nothing itself."""
    turn: Callable[[Assignment], float] = lambda row: 0.0
    """Seconds until a start of a row may be tried, on a cluster that limits connections; 0.0: it starts now."""
    bucket_rules: Callable[[str], BucketRules | None] = lambda checkpoint: None
    """What the lifecycle of a checkpoint's bucket does with it; None where no bucket holds it. May take minutes."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    shared: Shared = field(default_factory=Shared)
    """What the queries of one application have together here."""

    @property
    def process(self) -> Process:
        """This process, as others may have to find out whether it is gone."""
        return Process(
            runner=self.runner,
            instance=self.instance,
            host=self.here.host,
            boot_id=self.here.boot_id,
            pid=self.here.pid,
            pid_started=self.here.pid_started,
            spark_master=self.spark_master,
            application_id=self.application_id,
            pod=self.pod,
        )

    def query(self, name: str) -> Query:
        return self.settings.queries[name]

    def resume(self, name: str) -> Resume:
        """How a query that is run here continues; never ``AUTO``."""
        return self.query(name).resume_with(companion=self.companion)

    def declared(self, name: str, cluster: str) -> Declared:
        """The query's sources with their topics by their names on a cluster."""
        return topics_of(self.settings, self.settings.queries[name], cluster)


def absolute(path: str, base: Path) -> str:
    """A checkpoint's folder made absolute; a URI stays as it is."""
    return path if ":" in path.partition("/")[0] else str((base / Path(path).expanduser()).resolve())


def known_offsets(offsets: Offsets) -> Offsets | None:
    """Offsets for a fact: nothing instead of an empty map."""
    return offsets or None


def about(row: Assignment) -> dict[str, object]:
    """What a log line names that is about a query under its row."""
    named: dict[str, object] = {"query": row.query, "epoch": row.epoch}
    return named if row.operation is None else {**named, "operation": row.operation}


def logger_about(fields: Mapping[str, object]) -> structlog.stdlib.BoundLogger:
    """A logger that says whom a line is about."""
    return log.bind(**fields)  # type: ignore[no-any-return] # structlog types its loggers at run time
