"""The plan of one operation, assembled from facts: what ``plan`` shows is done. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.gates.loss import possibly_replayed, replayed
from orchestrator.decide.move.forecast import awaited_of, followed_of, rewound_of, rows_before_of
from orchestrator.decide.move.left_behind import LeftBehind, left_behind
from orchestrator.decide.move_facts import MoveFacts, Rewind
from orchestrator.decide.places import most_of, most_seconds, total_of
from orchestrator.decide.times import instant, iso
from orchestrator.decide.truncation import truncated_partitions
from state.messages import Offsets, PrepareRequest, UncommittedBatch
from state.model.entities import MOVES, OperationKind
from state.model.plan import (
    Followed,
    Plan,
    PlannedOutput,
    PlannedPartition,
    PlannedRewind,
    PlannedRun,
    StandbyPartition,
    Totals,
    UpperBound,
)
from state.settings.keys import Resume, Source
from streaming.resume.model import AtMost, Resolution, Target
from streaming.resume.notes import joined


def plan_of(facts: MoveFacts, gates: Sequence[Gate]) -> Plan:
    """One operation's plan; it names no operation while it is only a plan."""
    targets = facts.resumes_at.targets if facts.resumes_at else ()
    unread = {each.key: each for each in left_behind(facts.departure, targets)}
    choice = facts.choice
    return Plan(
        operation=facts.operation,
        kind=facts.kind.value,
        query=facts.query,
        source=facts.source,
        target=facts.target,
        epoch=facts.epoch,
        resume=facts.resume.value,
        resume_text=resume_text(facts),
        batch=facts.report.batch if facts.report else None,
        uncommitted_batch=(choice.treatment if choice else UncommittedBatch.NONE).value,
        fence=facts.fence or "pending",
        gates=tuple(gates),
        partitions=tuple(_noted(target, unread) for target in targets),
        starting_offsets=_merged(target_offsets(targets)),
        totals=_totals(facts, targets),
        refused=any(not gate.ok for gate in gates),
        buffers=tuple(each.planned for each in facts.buffers),
        log_truncation=truncated_partitions(facts.resets or ()),
        unread_before=tuple(each.row for each in unread.values()),
        output=_output(facts),
        rewind=_rewind(facts.rewind) if facts.rewind else None,
        in_run=_in_run(facts),
        rows_before=rows_before_of(facts.fact, facts.source),
        followed=_followed(facts),
        awaited=awaited_of(targets),
    )


def _totals(facts: MoveFacts, targets: Sequence[Target]) -> Totals:
    sampled = [target.sampled_at for target in targets if target.sampled_at is not None]
    return Totals(
        replay_records=replayed(facts) if targets else None,
        possible_replay_records=possibly_replayed(facts) if targets else None,
        replay_later_records=total_of(target.replay_later_records for target in targets),
        exposure_records=total_of(target.exposure_records for target in targets),
        exposure_seconds=most_seconds(targets),
        at_most=_bound(most_of(targets)),
        first_batch_records=_first_batch(facts, targets),
        usual_batch_records=facts.fact.rows.usual if facts.fact is not None and facts.fact.rows is not None else None,
        exposure_sampled_at=iso(min(sampled)) if sampled else None,
    )


def _first_batch(facts: MoveFacts, targets: Sequence[Target]) -> int | None:
    """How much waits behind the resume offsets for the first batch.

    Offsets, so an upper bound of the records that the standby held at the look-up; less where the source caps a batch.
    """
    waiting: dict[str, int | None] = {}
    for target in targets:
        known = waiting.get(target.source, 0)
        unknown = known is None or target.end is None or target.target_offset is None
        waiting[target.source] = None if unknown else known + max(0, target.end - target.target_offset)  # type: ignore[operator]
    own = facts.policy.catch_up_batch if facts.resume is Resume.SWITCH else None
    return total_of([_capped(records, facts.settings.sources.get(name), own) for name, records in waiting.items()])


def _capped(records: int | None, source: Source | None, own: int | None) -> int | None:
    """At most what ``maxOffsetsPerTrigger`` and ``own``, the companion's limit, allow; Spark's options know no case."""
    options = source.options if source is not None else {}
    cap = next((value for key, value in options.items() if key.lower() == "maxoffsetspertrigger"), None)
    limits = [int(cap)] if cap is not None and str(cap).isdigit() else []
    known = [each for each in (records, *limits, own) if each is not None]
    return min(known, default=None)


def _output(facts: MoveFacts) -> PlannedOutput | None:
    """Where the topic ends on the target behind which the query continues to write; an operation's."""
    if facts.handed_on is None or facts.output_ends is None:
        return None
    ends = {str(partition): end for partition, end in sorted(facts.output_ends.items())}
    return PlannedOutput(topic=facts.handed_on, ends=ends)


def _in_run(facts: MoveFacts) -> PlannedRun | None:
    """The run in which the batch under way continues, and what the sink may get twice where another one reads it."""
    choice = facts.choice
    if choice is None or choice.in_run is None:
        return None
    return PlannedRun(run_id=choice.in_run, otherwise_repeats=choice.otherwise)


def _followed(facts: MoveFacts) -> Followed | None:
    """What an operation is measured by; a mere plan is never carried out."""
    place = facts.resumes_at
    if not facts.operation or place is None:
        return None
    committed = facts.settings.committed_only
    if facts.rewind is not None:
        return rewound_of(place.targets, place.looked_up_at, committed_only=committed)
    counts = place.fewer_partitions or {}
    return followed_of(
        place.targets, place.looked_up_at, planned=facts.planned, committed_only=committed, repartitioned=counts
    )


def _rewind(rewind: Rewind) -> PlannedRewind:
    """To what a query goes back; of a plan the batch is not known yet."""
    return PlannedRewind(
        to_time=instant(rewind.to_time_ms),
        batch=rewind.batch.batch if rewind.batch else None,
        batch_planned_at=instant(rewind.batch.planned_at_ms) if rewind.batch else None,
        retained_from=instant(rewind.oldest_ms),
    )


def headline(kind: OperationKind, query: str, source: str, target: str, parameters: Mapping[str, object]) -> str:
    """What an operation is, in a few words."""
    if kind is OperationKind.REWIND:
        return f"{kind.value} of {query} on {source} to {parameters.get('to_time')}"
    return f"{kind.value} of {query} from {source} to {target}"


def _noted(target: Target, unread: Mapping[StandbyPartition, LeftBehind]) -> PlannedPartition:
    found = unread.get(StandbyPartition(target.source, *target.there))
    return _partition(target if found is None else replace(target, note=joined(target.note, found.note)))


def _partition(target: Target) -> PlannedPartition:
    return PlannedPartition(
        source=target.source,
        topic=target.topic,
        partition=target.partition,
        offset=target.offset,
        timestamp_ms=target.timestamp_ms,
        buffer_ms=target.buffer_ms,
        target_topic=target.target_topic,
        target_partition=target.target_partition,
        target_offset=target.target_offset,
        method=target.method,
        begin=target.begin,
        end=target.end,
        replay_records=target.replay_records,
        replay_later_records=target.replay_later_records,
        exposure_records=target.exposure_records,
        exposure_seconds=target.exposure_seconds,
        at_most=_bound(target.at_most),
        note=target.note or target.error or "",
    )


def _bound(most: AtMost | None) -> UpperBound | None:
    """Upper bounds, apart from the numbers that are known; of a sum or of one partition."""
    if most is None:
        return None
    return UpperBound(
        exposure_records=most.exposure_records,
        exposure_seconds=most.exposure_seconds,
        replay_later_records=most.replay_later_records,
    )


def target_offsets(targets: Iterable[Target]) -> Offsets:
    """The standby's offsets per source, topic and partition; partitions without a place are left out.

    Where two topics come into one log (which a gate refuses), the lower offset: no record of either is skipped.
    """
    offsets: Offsets = {}
    for target in targets:
        if target.target_offset is not None:
            topic = offsets.setdefault(target.source, {}).setdefault(target.target_topic, {})
            partition = str(target.target_partition)
            topic[partition] = min(target.target_offset, topic.get(partition, target.target_offset))
    return offsets


def resume_text(facts: MoveFacts) -> str:
    """What the resume does to the checkpoint, and why it is this one where the configuration leaves that open."""
    match facts.resume:
        case Resume.SWITCH if facts.settings.application is not None:
            return "the checkpoint stays: its offsets are rewritten in place, and plain Spark continues from it"
        case Resume.SWITCH:
            return "the checkpoint stays, and from now on only a Spark with the companion can continue from it"
        case Resume.FRESH:
            return "a new checkpoint, without the state"
    new = "a new checkpoint, from which any Spark can continue"
    if facts.settings.resume is not Resume.AUTO or facts.kind not in MOVES:
        return new
    if not facts.runners:
        return f"{new}; switch cannot be: no runner is alive that could report whether it has the companion"
    return f"{new}; switch cannot be: no companion in the Spark of {facts.companion_missing}"


def prepare_request(facts: MoveFacts, *, target_folder: str, attempt: int = 1) -> PrepareRequest:
    """What the runner shall make of the checkpoint, or beside it where the query keeps it.

    The facts must be complete: report, resolution, choice, epoch.
    """
    report, place, choice = facts.report, facts.resumes_at, facts.choice
    if report is None or place is None or choice is None or facts.epoch is None or facts.operation is None:
        raise ValueError("a checkpoint is prepared only after every partition was resolved")
    switches = facts.resume is Resume.SWITCH
    replanned: Resolution | None = facts.planned_resolution if choice.treatment is UncommittedBatch.REPLAN else None
    return PrepareRequest(
        checkpoint=report.checkpoint,
        target=report.checkpoint if switches else target_folder,
        operation=facts.operation,
        epoch=facts.epoch,
        resume=facts.resume.value,
        cluster=facts.target,
        attempt=attempt,
        batch=report.batch,
        offsets=report.offsets,
        target_offsets=target_offsets(place.targets),
        treatment=choice.treatment,
        planned_target_offsets=target_offsets(replanned.targets) if replanned else None,
        in_run=choice.in_run if switches else None,
        back_to=facts.rewind.batch.batch if facts.rewind and facts.rewind.batch and not facts.fresh else None,
    )


def _merged(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Spark's ``startingOffsets`` shape: all sources in one map of topics.

    Of two sources that read one partition, the lower offset: a start there skips no record.
    """
    merged: dict[str, dict[str, int]] = {}
    for topics in offsets.values():
        for topic, partitions in topics.items():
            known = merged.setdefault(topic, {})
            for partition, offset in partitions.items():
                known[partition] = min(offset, known.get(partition, offset))
    return merged
