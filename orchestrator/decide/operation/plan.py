"""The plan of one operation as JSON (keys: ``docs/programs.md``), assembled from facts: what ``plan`` shows is done.

``awaited`` stands in a plan only when the standby lagged: what the move announced to come later. It holds the
fingerprints of the records that the query had read and the standby lacked; few enough that a store's row stays small.
Looking for them can be taken up where it was left: a row says from which offset on the log has not been looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.decide.evidence.rows import before_json
from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.gates.loss import possibly_replayed, replayed
from orchestrator.decide.gates.places import most_of, most_seconds
from orchestrator.decide.move_facts import MoveFacts, Rewind
from orchestrator.decide.outcome import (
    MOST_REMEMBERED,
    LeftBehind,
    Plan,
    Reached,
    StandbyPartition,
    consumed_until,
    followed_json,
    keyed,
    left_behind,
    rewound_json,
)
from orchestrator.decide.times import instant, iso
from orchestrator.decide.truncation import truncation_json
from state.messages import Offsets, PrepareRequest, UncommittedBatch
from state.model.entities import MOVES, Operation, OperationKind
from state.settings.keys import Resume, Source
from streaming.cluster_log import LogRecord
from streaming.resume.model import AtMost, Resolution, Target
from streaming.resume.notes import joined
from streaming.resume.sent_again import Awaited


def awaited_json(targets: Iterable[Target]) -> list[dict[str, object]]:
    """What is kept of the records that are announced to come later; empty when there are none."""
    announcing = [target for target in targets if target.replay_later_records and target.target_offset is not None]
    share = MOST_REMEMBERED // max(1, len(announcing))
    return [
        {
            "source": target.source,
            "topic": target.target_topic,
            "partition": target.target_partition,
            "offset": target.target_offset,
            "announced": target.replay_later_records,
            "came": 0,
            "records": [f"{each.timestamp_ms}:{each.digest.hex()}" for each in target.later[-share:] if share],
        }
        for target in announcing
    ]


def announced(operation: Operation) -> int | None:
    """How many records a finished move announced to come later; None unknown, and for a drill, which moved nothing."""
    totals = (operation.plan or {}).get("totals")
    known = totals.get("replay_later_records") if isinstance(totals, Mapping) else None
    moved = operation.outcome == "done" and operation.kind in MOVES
    return known if isinstance(known, int) and moved else None


def to_look_at(plan: Plan, reached: Reached) -> dict[StandbyPartition, tuple[int, int]]:
    """Where awaited records may be that the query has read since somebody looked last."""
    return {key: (row["offset"], consumed_until(reached, key, row)) for key, row in _rows(plan)}


def looked_at(plan: Plan, records: Mapping[StandbyPartition, tuple[int, Sequence[LogRecord]]]) -> dict[str, Any]:
    """The plan once these records were looked at; each with the offset up to which they go."""
    rows = [_advanced(row, *records[key]) if key in records else row for key, row in _rows(plan)]
    return {**plan, "awaited": rows}


def came_later(plan: Plan) -> int | None:
    """How many of the announced records have come, as far as was looked; None where one partition cannot tell."""
    total = 0
    for _, row in _rows(plan):
        came = _awaited(row).came
        if came is None:
            return None
        total += came
    return total


def _advanced(row: Mapping[str, Any], reached: int, records: Sequence[LogRecord]) -> dict[str, Any]:
    after = _awaited(row).after(records)
    left = [f"{at}:{digest.hex()}" for at, digest in after.missing]
    return {**row, "offset": reached, "came": after.matched, "records": left}


def _awaited(row: Mapping[str, Any]) -> Awaited:
    known = (text.partition(":") for text in row["records"])
    missing = tuple((int(at), bytes.fromhex(digest)) for at, _, digest in known)
    return Awaited(announced=row["announced"], missing=missing, matched=row["came"])


def _rows(plan: Plan) -> list[tuple[StandbyPartition, Mapping[str, Any]]]:
    return keyed(plan.get("awaited", ()))


def plan_json(facts: MoveFacts, gates: Sequence[Gate]) -> dict[str, object]:
    """One operation's plan; ``operation`` is null while it is only a plan."""
    targets = facts.resumes_at.targets if facts.resumes_at else ()
    unread = {each.key: each for each in left_behind(facts.departure, targets)}
    choice = facts.choice
    sampled = [target.sampled_at for target in targets if target.sampled_at is not None]
    return {
        "operation": facts.operation,
        "kind": facts.kind.value,
        "query": facts.query,
        "from": facts.source,
        "to": facts.target,
        "epoch": facts.epoch,
        "resume": facts.resume.value,
        "resume_text": resume_text(facts),
        "batch": facts.report.batch if facts.report else None,
        "uncommitted_batch": choice.treatment.value if choice else UncommittedBatch.NONE.value,
        "fence": facts.fence or "pending",
        "gates": [gate.as_json() for gate in gates],
        "partitions": [_noted(target, unread) for target in targets],
        "starting_offsets": _merged(target_offsets(targets)),
        "totals": {
            "replay_records": replayed(facts) if targets else None,
            "possible_replay_records": possibly_replayed(facts) if targets else None,
            "replay_later_records": _sum(target.replay_later_records for target in targets),
            "exposure_records": _sum(target.exposure_records for target in targets),
            "exposure_seconds": most_seconds(targets),
            **({"at_most": bound_json(most)} if (most := most_of(targets)) is not None else {}),
            **_first_batch(facts, targets),
            "exposure_sampled_at": iso(min(sampled)) if sampled else None,
        },
        "refused": any(not gate.ok for gate in gates),
        **({"buffers": [each.as_json() for each in facts.buffers]} if facts.buffers else {}),
        **({"log_truncation": truncation_json(facts.resets)} if facts.resets else {}),
        **({"unread_before": [each.as_json() for each in unread.values()]} if unread else {}),
        **_output(facts),
        **({"rewind": _rewind_json(facts.rewind)} if facts.rewind else {}),
        **_in_run(facts),
        **({"rows_before": before} if (before := before_json(facts.fact, facts.source)) else {}),
        **_followed(facts),
        **({"awaited": awaited} if (awaited := awaited_json(targets)) else {}),
    }


def _first_batch(facts: MoveFacts, targets: Sequence[Target]) -> dict[str, object]:
    """How much waits behind the resume offsets for the first batch, beside what a batch of this query usually reads.

    Offsets, so an upper bound of the records that the standby held at the look-up; less where the source caps a batch.
    """
    waiting: dict[str, int | None] = {}
    for target in targets:
        known = waiting.get(target.source, 0)
        unknown = known is None or target.end is None or target.target_offset is None
        waiting[target.source] = None if unknown else known + max(0, target.end - target.target_offset)  # type: ignore[operator]
    own = facts.policy.catch_up_batch if facts.resume is Resume.SWITCH else None
    capped = [_capped(records, facts.settings.sources.get(name), own) for name, records in waiting.items()]
    usual = facts.fact.rows.usual if facts.fact is not None and facts.fact.rows is not None else None
    return {"first_batch_records": _sum(capped), "usual_batch_records": usual}


def _capped(records: int | None, source: Source | None, own: int | None) -> int | None:
    """At most what ``maxOffsetsPerTrigger`` and ``own``, the companion's limit, allow; Spark's options know no case."""
    options = source.options if source is not None else {}
    cap = next((value for key, value in options.items() if key.lower() == "maxoffsetspertrigger"), None)
    limits = [int(cap)] if cap is not None and str(cap).isdigit() else []
    known = [each for each in (records, *limits, own) if each is not None]
    return min(known, default=None)


def _output(facts: MoveFacts) -> dict[str, object]:
    """Where the topic ends on the target behind which the query goes on writing; an operation's."""
    if facts.handed_on is None or facts.output_ends is None:
        return {}
    ends = {str(partition): end for partition, end in sorted(facts.output_ends.items())}
    return {"output": {"topic": facts.handed_on, "ends": ends}}


def _in_run(facts: MoveFacts) -> dict[str, object]:
    """The run in which the batch under way goes on, and what the sink may get twice where another one reads it."""
    choice = facts.choice
    if choice is None or choice.in_run is None:
        return {}
    return {"in_run": {"run_id": choice.in_run, "otherwise_repeats": choice.otherwise}}


def _followed(facts: MoveFacts) -> dict[str, object]:
    """What an operation is measured by; a mere plan is never carried out."""
    place = facts.resumes_at
    if not facts.operation or place is None:
        return {}
    committed = facts.settings.committed_only
    if facts.rewind is not None:
        return {"followed": rewound_json(place.targets, place.asked_at, committed_only=committed)}
    kept = followed_json(place.targets, place.asked_at, planned=facts.planned, committed_only=committed)
    return {"followed": kept}


def _rewind_json(rewind: Rewind) -> dict[str, object]:
    """To what a query goes back; of a plan the batch is not known yet."""
    return {
        "to_time": instant(rewind.to_time_ms),
        "batch": rewind.batch.batch if rewind.batch else None,
        "batch_planned_at": instant(rewind.batch.planned_at_ms) if rewind.batch else None,
        "retained_from": instant(rewind.oldest_ms),
    }


def headline(kind: OperationKind, query: str, source: str, target: str, parameters: Mapping[str, object]) -> str:
    """What an operation is, in a few words."""
    if kind is OperationKind.REWIND:
        return f"{kind.value} of {query} on {source} to {parameters.get('to_time')}"
    return f"{kind.value} of {query} from {source} to {target}"


def _noted(target: Target, unread: Mapping[StandbyPartition, LeftBehind]) -> dict[str, object]:
    found = unread.get(StandbyPartition(target.source, target.target_topic, target.target_partition))
    return partition_json(target if found is None else replace(target, note=joined(target.note, found.note)))


def partition_json(target: Target) -> dict[str, object]:
    """One partition of a plan."""
    return {
        "source": target.source,
        "topic": target.topic,
        "partition": target.partition,
        "offset": target.offset,
        "timestamp_ms": target.timestamp_ms,
        "buffer_ms": target.buffer_ms,
        "target_topic": target.target_topic,
        "target_partition": target.target_partition,
        "target_offset": target.target_offset,
        "method": target.method,
        "begin": target.begin,
        "end": target.end,
        "replay_records": target.replay_records,
        "replay_later_records": target.replay_later_records,
        "exposure_records": target.exposure_records,
        "exposure_seconds": target.exposure_seconds,
        **({"at_most": bound_json(target.at_most)} if target.at_most is not None else {}),
        "note": target.note or target.error or "",
    }


def bound_json(bound: AtMost) -> dict[str, object]:
    """Upper bounds, apart from the numbers that are known; of a sum or of one partition."""
    return {
        "exposure_records": bound.exposure_records,
        "exposure_seconds": bound.exposure_seconds,
        "replay_later_records": bound.replay_later_records,
    }


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
    """What the way to go on does to the checkpoint, and why it is this one where the configuration leaves that open."""
    match facts.resume:
        case Resume.SWITCH:
            return "the checkpoint stays, and from now on only a Spark with the companion can continue from it"
        case Resume.FRESH:
            return "a new checkpoint, without the state"
    new = "a new checkpoint, from which any Spark can continue"
    if facts.settings.resume is not Resume.AUTO or facts.kind not in MOVES:
        return new
    if not facts.runners:
        return f"{new}; switch cannot be: no runner is alive that could report whether it has the companion"
    return f"{new}; switch cannot be: no companion in the Spark of {', '.join(facts.without_companion)}"


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

    Of two sources that read one partition, the lower offset: nobody who starts there skips a record.
    """
    merged: dict[str, dict[str, int]] = {}
    for topics in offsets.values():
        for topic, partitions in topics.items():
            known = merged.setdefault(topic, {})
            for partition, offset in partitions.items():
                known[partition] = min(offset, known.get(partition, offset))
    return merged


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    seen = False
    for value in values:
        if value is None:
            return None
        total, seen = total + value, True
    return total if seen else None
