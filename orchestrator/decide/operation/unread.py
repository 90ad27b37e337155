"""A query that was placed on a cluster and has read nothing there is where it was before the move.

What is remembered of that speaks of the other cluster's offsets. The distance between the two is known for each
partition, because the move put one offset in the place of the other. So the rows are shifted by it, and serve the next
move as if they had been tracked here. By whatever method the place was chosen, this holds only until the first batch
is committed here: from then on other records precede the position than those remembered.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from orchestrator.decide.lookup_wants import standby_topic
from orchestrator.decide.operation.snapshot import newest_report
from state.messages import CheckpointReport, Offsets, PrepareReport, PrepareRequest, UncommittedBatch
from state.model.entities import Intent, IntentKind, IntentState, Position
from state.settings.keys import Route


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrival:
    """What a committed move put in the place of what."""

    route: Route
    left: Offsets
    """End offsets on the old cluster, up to which the query had read."""
    reached: Offsets
    """The offsets that stand for them here; topics by their names here."""
    data_batch: int
    """The first batch that reads anything here."""

    @property
    def source(self) -> str:
        """The cluster that was left."""
        return self.route.source

    def is_unread(self, report: CheckpointReport) -> bool:
        """Whether the checkpoint shows that nothing was committed here yet; that of a fresh start is empty then."""
        return (-1 if report.batch is None else report.batch) < self.data_batch


def arrival(intents: Sequence[Intent], route: Route) -> Arrival | None:
    """What an operation that passed its commit had ordered from runners, and got; None when it prepared nothing."""
    prepared = next(
        (i for i in reversed(intents) if i.kind is IntentKind.PREPARE and i.state is IntentState.DONE), None
    )
    if prepared is None:
        return None
    request = PrepareRequest.of(prepared.request)
    left: Offsets = request.offsets
    if request.treatment is UncommittedBatch.PROMOTE:
        report = newest_report(intents)
        if report is None or report.planned is None:
            return None
        left = report.planned.offsets
    data_batch = PrepareReport.of(prepared.result).data_batch
    return Arrival(route=route, left=left, reached=request.target_offsets, data_batch=data_batch)


def shifted(rows: Iterable[Position], arrived: Arrival) -> list[Position]:
    """Rows of the cluster that was left, in offsets of the one that was reached.

    A topic whose partitions do not match one to one has none. Fingerprints that would come to lie at or before offset 0
    are left out, so that no ring seems to hold a partition's whole history.
    """
    found = []
    for row in rows:
        left = arrived.left.get(row.source, {}).get(row.topic, {})
        topic = standby_topic(arrived.route, row.topic) or row.topic
        reached = arrived.reached.get(row.source, {}).get(topic, {})
        if str(row.partition) not in left or set(left) != set(reached):
            continue
        found.append(_moved(row, topic, reached[str(row.partition)] - left[str(row.partition)]))
    return [row for row in found if row.offset >= 0]


def _moved(row: Position, topic: str, by: int) -> Position:
    ring = tuple(each._replace(offset=each.offset + by) for each in row.ring if each.offset + by > 0)
    return replace(row, topic=topic, offset=row.offset + by, ring=ring)
