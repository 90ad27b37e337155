"""What becomes of batch N+1, which was planned and maybe delivered, but not committed (DESIGN section 5)."""

from collections.abc import Iterable
from dataclasses import dataclass

from state.protocol import CheckpointReport, Offsets, Planned, SinkState, Treatment
from state.settings import Sink
from streaming.resume.model import Resolution, Target

Key = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The treatment, and how many records it may hand to the sink a second time."""

    treatment: Treatment
    repeats: int | None
    """0 when proven to be none; None when it cannot be told."""
    text: str


def choose_treatment(
    report: CheckpointReport, resolution: Resolution, planned_resolution: Resolution | None, sink: Sink
) -> Choice:
    """First that holds: nothing planned, replan, promote, bridge.

    A batch planned again over the same records ends right in a sink that overwrites or drops what it has already. One
    that appends keeps both: there promoting goes first, and else the batch's records are the possible repeat.
    """
    planned = report.planned
    if planned is None:
        return Choice(treatment=Treatment.NONE, repeats=0, text="no batch was planned beyond the last committed one")
    appends = sink is Sink.APPEND and not report.sink_keeps_batch_ids
    repeats = 0 if planned.sink is SinkState.HAS_NOT else _records_between(report.offsets, planned)
    promoted = planned.sink is SinkState.HAS and not report.stateful
    promoted = promoted and planned_resolution is not None and planned_resolution.is_complete
    same = planned_resolution is not None and _same_records(resolution, planned_resolution)
    if same and not (appends and promoted):
        return Choice(
            treatment=Treatment.REPLAN,
            repeats=repeats if appends else 0,
            text=f"batch {planned.batch} is planned again over the same records on the standby",
        )
    if promoted:
        return Choice(
            treatment=Treatment.PROMOTE, repeats=0, text=f"the sink has batch {planned.batch}: taken as consumed"
        )
    text = f"batch {planned.batch} becomes an empty batch, so that its id is not used for other records"
    return Choice(treatment=Treatment.BRIDGE, repeats=repeats, text=text)


def choose_fresh(report: CheckpointReport) -> Choice:
    """A fresh start reads the planned batch again, and the sink gets it twice if it has it already."""
    planned = report.planned
    if planned is None or planned.sink is SinkState.HAS_NOT:
        return Choice(treatment=Treatment.NONE, repeats=0, text="a fresh start plans its batches anew")
    text = f"a fresh start reads batch {planned.batch} again, which the sink may have"
    return Choice(treatment=Treatment.NONE, repeats=_records_between(report.offsets, planned), text=text)


def _by_key(targets: Iterable[Target]) -> dict[Key, Target]:
    return {(target.source, target.topic, target.partition): target for target in targets}


def _same_records(first: Resolution, second: Resolution) -> bool:
    """Whether both ends of the batch are proven and nothing was sent again between them.

    Order is kept, so between two exact places lie the same records; a replicator's re-sent copies would make the
    standby's range longer than the old one. Transaction markers and compaction may make it shorter.
    """
    starts, ends = _by_key(first.targets), _by_key(second.targets)
    if not ends or set(starts) != set(ends):
        return False
    for key, end in ends.items():
        start = starts[key]
        if not (start.exact and end.exact) or start.target_offset is None or end.target_offset is None:
            return False
        if start.target_partition != end.target_partition or start.target_topic != end.target_topic:
            return False
        if not 0 <= end.target_offset - start.target_offset <= end.offset - start.offset:
            return False
        if end.offset > start.offset and end.target_offset == start.target_offset:
            return False
    return True


def _records_between(offsets: Offsets, planned: Planned) -> int | None:
    """Upper bound of the records of the planned batch: offsets between its ends."""
    total = 0
    for source, topics in planned.offsets.items():
        for topic, partitions in topics.items():
            for partition, end in partitions.items():
                start = offsets.get(source, {}).get(topic, {}).get(partition)
                if start is None:
                    return None
                total += max(0, end - start)
    return total
