"""Writers that are built while a move is still under way: once it is committed only the start is left.

A writer depends on the query, its cluster and its epoch, and, where it begins afresh, on its offsets. The first three
are known when the fence is ordered, and a fence waits for the batch under way. Building takes Spark some 50 ms, and a
pipeline's own code as long as it likes. Nothing is started here, and what fails is left for the start to meet and
report.
"""

import threading
from concurrent.futures import Future
from dataclasses import dataclass, replace

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.checkpoint_folders import mapping_name
from state.messages import Offsets
from state.model.entities import Assignment, Desired
from state.settings.keys import Resume
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.hosting import Hosting
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.launch import is_switched, prepare_writer

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ReadyWriter:
    """Everything but the start."""

    session: SparkSession
    writer: DataStreamWriter
    gate: CallbackGate


@dataclass(frozen=True, kw_only=True, slots=True)
class _Building:
    row: Assignment
    """As a commit will place the query."""
    switched: bool
    """Whether it reads through the companion's source."""
    done: "Future[ReadyWriter]"

    def is_for(self, row: Assignment, *, switched: bool) -> bool:
        """Whether it starts what a row wants; the checkpoint is named last."""
        reported_last = replace(self.row, changed_at=row.changed_at, checkpoint=row.checkpoint, mapping=row.mapping)
        return reported_last == row and Placed.of(self.row) == Placed.of(row) and self.switched == switched


class WritersAhead:
    """At most one for each query, of its newest move; from any thread."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._lock = threading.Lock()
        self._building: dict[str, _Building] = {}

    def begin(
        self, query: str, operation: str, *, epoch: int, cluster: str, resume: str, starting: Offsets | None = None
    ) -> None:
        """Build, in the background, what the commit of this move will need; unless that has begun already."""
        row = Assignment(
            query=query,
            epoch=epoch,
            placed_epoch=epoch,
            desired=Desired.RUNNING,
            cluster=cluster,
            runner=self._hosting.runner,
            checkpoint="",
            starting_offsets=starting,
            operation=operation,
            changed_at=self._hosting.now(),
            mapping=mapping_name(epoch, operation) if resume == Resume.SWITCH else None,
        )
        switched = Resume.SWITCH in {resume, self._hosting.resume(query)}  # as it is started whatever its checkpoint is
        building = _Building(row=row, switched=switched, done=Future())
        with self._lock:
            before = self._building.get(query)
            if before is not None and before.is_for(row, switched=building.switched):
                return
            self._building[query] = building
        threading.Thread(target=self._build, args=(building,), name=f"build {query}", daemon=True).start()

    def take(self, row: Assignment) -> ReadyWriter | None:
        """What was built for this row, once; waits for the end of building. None: build it now.

        Raises ``CheckpointError``.
        """
        with self._lock:
            building = self._building.pop(row.query, None)
        if building is None or not building.is_for(row, switched=is_switched(self._hosting, row)):
            return None
        if building.done.exception() is not None:
            return None
        ready = building.done.result()
        ready.writer.option("checkpointLocation", row.checkpoint)
        return ready

    def forget(self, query: str) -> None:
        """The query stays where it is."""
        with self._lock:
            self._building.pop(query, None)

    def _build(self, building: _Building) -> None:
        gate = CallbackGate()
        try:
            session, writer = prepare_writer(self._hosting, building.row, gate, switched=building.switched)
        except Exception as error:  # noqa: BLE001 - the start meets it again, and says it
            log.info("a writer cannot be built yet", query=building.row.query, error=repr(error))
            building.done.set_exception(error)
        else:
            building.done.set_result(ReadyWriter(session, writer, gate))
