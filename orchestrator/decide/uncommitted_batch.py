"""What becomes of the batch that was planned and not committed when a query is moved."""

from collections.abc import Iterable
from dataclasses import dataclass

from state.messages import CheckpointReport, Offsets, Planned, SinkMemory, SinkState, UncommittedBatch
from state.settings.keys import Sink
from streaming.resume.model import Resolution, Target
from streaming.resume.shift import Ends, TopicOffsets, shift_between

Key = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchChoice:
    """The treatment, and how many records it may hand to the sink a second time."""

    treatment: UncommittedBatch
    repeats: int | None
    """0 when proven to be none; None when it is unknown."""
    text: str
    in_run: str | None = None
    """The run that continues in the batch. Only while it does is ``repeats`` 0."""
    otherwise: int | None = None
    """``repeats`` where another run reads the batch again after all."""


_NOTHING_IN_FLIGHT = BatchChoice(treatment=UncommittedBatch.NONE, repeats=0, text="no batch was in flight")


def choose_treatment(
    report: CheckpointReport,
    resolution: Resolution,
    planned_resolution: Resolution | None,
    sink: Sink,
    *,
    keeps_query_id: bool = False,
) -> BatchChoice:
    """First that holds: nothing planned, replan, promote, bridge.

    A batch planned again over the same records ends right in a sink that overwrites or drops what it has already. One
    that appends keeps both: there promoting goes first, and else the batch's records are the possible repeat.
    ``keeps_query_id``: the query continues from the same checkpoint, so that a sink which knows batches knows this one.

    A batch whose run is held in the middle of it continues there, and any sink gets it once, if its records lie one for
    one in both logs. Else that run cannot continue (``streaming.resume.shift``), and it is as if it had been stopped.
    """
    planned = report.planned
    if planned is None:
        return _NOTHING_IN_FLIGHT
    appends = _takes_again(report, planned, sink, keeps_query_id=keeps_query_id)
    repeats = 0 if planned.sink is SinkState.HAS_NOT else _records_between(report.offsets, planned)
    promoted = planned.sink is SinkState.HAS and not report.stateful
    promoted = promoted and planned_resolution is not None and planned_resolution.is_complete
    if planned.held and _goes_on(report, planned, resolution, planned_resolution):
        return BatchChoice(
            treatment=UncommittedBatch.REPLAN,
            repeats=0,
            text=f"batch {planned.batch} continues in its run, from the next record of each task",
            in_run=planned.run_id,
            otherwise=repeats if appends else 0,
        )
    if _same_records(resolution, planned_resolution) and not (appends and promoted):
        return BatchChoice(
            treatment=UncommittedBatch.REPLAN,
            repeats=repeats if appends else 0,
            text=f"batch {planned.batch} runs again over the same records on the standby"
            + _of_sink(report, planned, sink, keeps_query_id=keeps_query_id),
        )
    if promoted:
        return BatchChoice(
            treatment=UncommittedBatch.PROMOTE,
            repeats=0,
            text=f"the sink already has batch {planned.batch}: it counts as read",
        )
    text = f"batch {planned.batch} is replaced by an empty batch, so that its id is never used for other records"
    text += _of_sink(report, planned, sink, keeps_query_id=keeps_query_id)
    if sink is Sink.KEYED and repeats:
        repeats, text = 0, f"{text}; its sink overwrites by key what it has of that batch"
    return BatchChoice(treatment=UncommittedBatch.BRIDGE, repeats=repeats, text=text)


def _takes_again(report: CheckpointReport, planned: Planned, sink: Sink, *, keeps_query_id: bool) -> bool:
    """Whether a batch that runs a second time under its id may be in the sink twice.

    A sink that knows batches recognises one only while it remembers it, and only by the names that stay. A carried
    checkpoint has a new query id and a new path (Spark's migration guide for 4.2; SPARK-55058). Of a sink whose table
    was not read nothing is assumed.
    """
    if sink is Sink.KEYED:
        return False
    match report.sink_memory:
        case SinkMemory.BATCH:
            return planned.sink is SinkState.FORGOT
        case SinkMemory.QUERY_AND_BATCH:
            return not keeps_query_id or planned.sink not in _READ
        case SinkMemory.CHECKPOINT_AND_BATCH:
            return not keeps_query_id or sink is Sink.APPEND
        case SinkMemory.NOTHING:
            return True
        case SinkMemory.OWN_CODE:
            return sink is Sink.APPEND
        case SinkMemory.UNKNOWN:
            return sink is Sink.APPEND or not keeps_query_id


_READ = (SinkState.HAS, SinkState.HAS_NOT)


def _of_sink(report: CheckpointReport, planned: Planned, sink: Sink, *, keeps_query_id: bool) -> str:
    """Why the batch may be in the sink twice, where that is the sink's doing."""
    if not _takes_again(report, planned, sink, keeps_query_id=keeps_query_id) or planned.sink is SinkState.HAS_NOT:
        return ""
    name = report.sink_format or "its sink"
    if planned.sink is SinkState.FORGOT:
        return f"; {name} no longer remembers the batches of that time, so it may write this one twice"
    if report.sink_memory in _BY_NAMES and not keeps_query_id:
        names = _BY_NAMES[report.sink_memory]
        return f"; {name} knows batches by {names}, which changes, so it may write that batch twice"
    if report.sink_memory is SinkMemory.QUERY_AND_BATCH:
        return f"; the {name} table could not be read, so it is unknown whether it has that batch"
    return ""


_BY_NAMES = {
    SinkMemory.QUERY_AND_BATCH: "the query id",
    SinkMemory.CHECKPOINT_AND_BATCH: "the path of the checkpoint",
    SinkMemory.UNKNOWN: "names that Tideover does not know",
}


def choose_fresh(report: CheckpointReport) -> BatchChoice:
    """A fresh start reads the planned batch again, and the sink gets it twice if it has it already."""
    planned = report.planned
    if planned is None or planned.sink is SinkState.HAS_NOT:
        return BatchChoice(treatment=UncommittedBatch.NONE, repeats=0, text="a fresh start begins with new batch ids")
    text = f"a fresh start reads batch {planned.batch} again; the sink may already have it"
    return BatchChoice(treatment=UncommittedBatch.NONE, repeats=_records_between(report.offsets, planned), text=text)


def choose_rewound(report: CheckpointReport, *, fresh: bool, stateful: bool | None) -> BatchChoice:
    """Going back takes nothing from the batch in flight: its records are read again, and its id gets no others.

    With state its id comes again with all that are after the retained batch, which is what ``sink-takes-batches`` says.
    """
    if fresh:
        return choose_fresh(report)
    if report.planned is None:
        return _NOTHING_IN_FLIGHT
    planned = report.planned
    repeats = 0 if planned.sink is SinkState.HAS_NOT else _records_between(report.offsets, planned)
    if stateful:
        text = f"batch {planned.batch} is left behind with the others after the batch that the state goes back to"
        return BatchChoice(treatment=UncommittedBatch.NONE, repeats=repeats, text=text)
    text = f"batch {planned.batch} is replaced by an empty batch, and its records are read again"
    return BatchChoice(treatment=UncommittedBatch.BRIDGE, repeats=repeats, text=text)


def _by_key(targets: Iterable[Target]) -> dict[Key, Target]:
    return {(target.source, target.topic, target.partition): target for target in targets}


def _goes_on(report: CheckpointReport, planned: Planned, first: Resolution, second: Resolution | None) -> bool:
    """Whether each source that reads something in the batch finds its records there one for one."""
    if second is None or not _same_records(first, second):
        return False
    reading = {name for name, ends in planned.offsets.items() if ends != report.offsets.get(name)}
    return all(_is_shifted(name, report, planned, first, second) for name in reading)


def _is_shifted(source: str, report: CheckpointReport, planned: Planned, first: Resolution, second: Resolution) -> bool:
    named = {target.target_topic: target.topic for target in second.targets if target.source == source}
    here = Ends(report.offsets.get(source, {}), planned.offsets[source])
    there = Ends(_there(source, first), _there(source, second))
    return shift_between(here, str, there, lambda topic: named.get(topic, topic)) is not None


def _there(source: str, resolution: Resolution) -> TopicOffsets:
    found: dict[str, dict[str, int]] = {}
    for target in resolution.targets:
        if target.source == source and target.target_offset is not None:
            found.setdefault(target.target_topic, {})[str(target.target_partition)] = target.target_offset
    return found


def _same_records(first: Resolution, second: Resolution | None) -> bool:
    """Whether both ends of the batch are proven and nothing was sent again between them.

    Order is kept, so between two exact places lie the same records; a replicator's re-sent copies would make the
    standby's range longer than the old one. Transaction markers and compaction may make it shorter.
    """
    starts, ends = _by_key(first.targets), _by_key(second.targets if second is not None else ())
    if not ends or set(starts) != set(ends):
        return False
    for key, end in ends.items():
        start = starts[key]
        if not (start.is_proven and end.is_proven) or start.target_offset is None or end.target_offset is None:
            return False
        if start.target_partition != end.target_partition or start.target_topic != end.target_topic:
            return False
        if not 0 <= end.target_offset - start.target_offset <= end.offset - start.offset:
            return False
        if end.offset > start.offset and end.target_offset == start.target_offset:
            return False
    return True


def _records_between(offsets: Offsets, planned: Planned) -> int | None:
    """Upper bound of the records of the planned batch: offsets between its ends. None where other sources were read."""
    if planned.others_read:
        return None
    total = 0
    for source, topics in planned.offsets.items():
        for topic, partitions in topics.items():
            for partition, end in partitions.items():
                start = offsets.get(source, {}).get(topic, {}).get(partition)
                if start is None:
                    return None
                total += max(0, end - start)
    return total
