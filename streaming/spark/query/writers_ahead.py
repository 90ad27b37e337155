"""Writers that are built while a move still makes their checkpoint: once it is committed only the start is left.

A writer depends on the query, its cluster, its epoch and where it begins, all of which the request for the checkpoint
says. Building it takes Spark some 50 ms, and a pipeline's own code as long as it likes. Nothing is started here, and
what fails is left for the start to meet and to tell.
"""

import threading
from concurrent.futures import Future
from dataclasses import dataclass, replace

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.messages import PrepareRequest
from state.model.entities import Assignment, Desired
from state.settings.keys import Resume
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.launch import is_switched, prepare_writer
from streaming.spark.runner.hosting import Hosting

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


class WritersAhead:
    """At most one for each query, of its newest move; from any thread."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._lock = threading.Lock()
        self._building: dict[str, _Building] = {}

    def begin(self, query: str, request: PrepareRequest) -> None:
        """Build the writer that the commit of this checkpoint will ask for, in the background."""
        row = Assignment(
            query=query,
            epoch=request.epoch,
            placed_epoch=request.epoch,
            desired=Desired.RUNNING,
            cluster=request.cluster,
            runner=self._hosting.runner,
            checkpoint=request.target,
            starting_offsets=request.target_offsets if request.resume == Resume.FRESH else None,
            operation=request.operation,
            changed_at=self._hosting.now(),
        )
        switched = request.resume == Resume.SWITCH or self._hosting.query(query).resume is Resume.SWITCH
        building = _Building(row=row, switched=switched, done=Future())
        with self._lock:
            self._building[query] = building
        threading.Thread(target=self._build, args=(building,), name=f"build {query}", daemon=True).start()

    def take(self, row: Assignment) -> ReadyWriter | None:
        """What was built for this row, once; waits for the end of building. None: build it now.

        Raises ``CheckpointError``.
        """
        with self._lock:
            building = self._building.pop(row.query, None)
        if building is None or replace(building.row, changed_at=row.changed_at) != row:
            return None
        if is_switched(self._hosting, row) != building.switched or building.done.exception() is not None:
            return None
        return building.done.result()

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
