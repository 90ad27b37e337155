"""Whether this process may run a query by its row: by the row, by the cluster, and by the checkpoint.

Checked again before each step after which the query could write, for each of the three can change in between.
"""

from py4j.protocol import Py4JError

from state.model.entities import Assignment
from state.settings.keys import Resume
from streaming.spark.authority import clear, restore_epoch, restore_mappings
from streaming.spark.checkpoint.follower import Follower
from streaming.spark.checkpoint.log_fence import kept_by, require_unmoved
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.checkpoint.mapping import Placed, read_moves
from streaming.spark.checkpoint.read import require_whole
from streaming.spark.errors import AssignmentMoved, CheckpointError, OtherCluster
from streaming.spark.handback import require_not_released, require_place
from streaming.spark.hosting import Hosting, about, logger_about
from streaming.spark.known_files import require_known
from streaming.spark.recut import broken_off, forget_cuts, restore_entry
from streaming.spark.runner.assignments import may_run


class Permission:
    """Of one query under one row."""

    def __init__(self, hosting: Hosting, assignment: Assignment) -> None:
        self._hosting = hosting
        self._assignment = assignment
        self._log = logger_about({**about(assignment), "cluster": assignment.cluster})

    def require_row(self) -> None:
        """Nothing is started that the row does not want, and nothing once another process has our name.

        Raises ``AssignmentMoved`` and ``StoreError``.
        """
        query, epoch, runner = self._assignment.query, self._assignment.epoch, self._hosting.runner
        store = self._hosting.store
        reported = next((fact.epoch for fact in store.query_facts() if fact.query == query), None)
        if not may_run(runner, store.assignment(query), epoch, reported):
            raise AssignmentMoved(f"{query}: the assignment has moved on from epoch {epoch}")
        registered = {fact.runner: fact.instance for fact in store.runners()}
        if registered.get(runner) != self._hosting.instance:
            raise AssignmentMoved(f"{query}: this process does not hold the name {runner}")

    def require_cluster(self) -> None:
        """Nothing is read from another cluster than the one that the checkpoint's offsets are of.

        Raises ``OtherCluster``.
        """
        why = self._hosting.stranger(self._assignment)
        if why is not None:
            raise OtherCluster(why)

    def may_wait(self) -> bool:
        """Whether a run may stay although its cluster is another one now: it reads nothing until it is moved.

        Its endpoint leads to another declared cluster, which the companion's source notices before each batch. A Kafka
        sink has no such check.
        """
        query, cluster = self._hosting.query(self._assignment.query), self._assignment.cluster
        is_switch = self._hosting.resume(self._assignment.query) is Resume.SWITCH
        return is_switch and query.output is None and self._hosting.is_elsewhere(cluster)

    def open_checkpoint(self) -> Follower:
        """Make sure that the query continues from this checkpoint here, let it, and follow it from where it is.

        Entries that hold the checkpoint no longer are taken away when the row wants the run: ``authority.clear``.
        Runs of older epochs stay held by the epoch that was planted beside them. Files that are missing are never taken
        for batches that never were: ``known_files``. First and last it checks that the row is still this one. Raises
        ``CheckpointError``, ``StoreError``, ``OtherCluster`` and ``AssignmentMoved``.
        """
        row, files, store = self._assignment, self._hosting.files, self._hosting.store
        self.require_row()
        if self._hosting.query(row.query).application is None:
            require_not_released(files, row)
        else:
            require_place(files, row)
        for name in restore_mappings(files, row, store):
            self._log.warning("mapping restored", mapping=name, checkpoint=row.checkpoint)
        require_unmoved(
            files,
            row.checkpoint,
            placed=Placed.of(row).epoch,
            operation=None,
            knows=lambda operation: store.operation(operation) is not None,
        )
        placed = Placed.of(row)
        cuts = broken_off(files, row.checkpoint)
        restored = restore_entry(files, row.checkpoint) if cuts else None
        if restored is not None:
            self._log.warning("planned batch restored", batch=restored, checkpoint=row.checkpoint)
        read_moves(files, row.checkpoint, placed)
        for operation in clear(files, row, self._is_over):
            self._log.info("fence removed", operation=operation, checkpoint=row.checkpoint)
        require_whole(files, row.checkpoint, placed)
        require_known(files, row, store)
        if restore_epoch(files, row):
            self._log.info("epoch written", epoch=row.epoch, checkpoint=row.checkpoint)
        if cuts:
            forget_cuts(files, row.checkpoint)
        follower = Follower(files, row.checkpoint, self._hosting.declared(row.query, row.cluster), placed)
        self.require_cluster()
        self.require_row()
        return follower

    def _is_over(self, operation: str) -> bool:
        known = self._hosting.store.operation(operation)
        return known is not None and not known.is_open

    def holder(self) -> Fence | None:
        """Whose entries keep the checkpoint from being run, where that is known."""
        try:
            files, row = self._hosting.files, self._assignment
            return kept_by(files, row.checkpoint, Placed.of(row).epoch)
        except (CheckpointError, Py4JError):
            return None
