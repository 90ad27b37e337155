"""The plan of one operation as JSON (DESIGN section 6), assembled from facts: what ``plan`` shows is what is done."""

from collections.abc import Iterable, Sequence

from orchestrator.decide.awaited import awaited_json
from orchestrator.decide.costs import possibly_replayed, replayed
from orchestrator.decide.facts import Facts
from orchestrator.decide.gate import Gate
from orchestrator.decide.outcome import followed_json
from orchestrator.decide.truncation import truncation_json
from state.protocol import Offsets, PrepareRequest, Treatment
from streaming.resume.model import Resolution, Target


def plan_json(facts: Facts, gates: Sequence[Gate]) -> dict[str, object]:
    """One operation's plan; ``operation`` is null while it is only a plan."""
    targets = facts.resumes_at.targets if facts.resumes_at else ()
    choice = facts.choice
    return {
        "operation": facts.operation,
        "kind": facts.kind.value,
        "query": facts.query,
        "from": facts.source,
        "to": facts.target,
        "epoch": facts.epoch,
        "resume": facts.settings.resume.value,
        "batch": facts.report.batch if facts.report else None,
        "uncommitted_batch": choice.treatment.value if choice else Treatment.NONE.value,
        "fence": facts.fence or "pending",
        "gates": [gate.as_json() for gate in gates],
        "partitions": [partition_json(target) for target in targets],
        "starting_offsets": _merged(target_offsets(targets)),
        "totals": {
            "replay_records": replayed(facts) if targets else None,
            "possible_replay_records": possibly_replayed(facts) if targets else None,
            "replay_later_records": _sum(target.replay_later_records for target in targets),
            "exposure_records": _sum(target.exposure_records for target in targets),
            "exposure_seconds": _largest(_exposure_seconds(target) for target in targets),
        },
        "refused": any(not gate.ok for gate in gates),
        **({"buffers": [each.as_json() for each in facts.buffers]} if facts.buffers else {}),
        **({"log_truncation": truncation_json(facts.resets)} if facts.resets else {}),
        **_followed(facts),
        **({"awaited": awaited} if (awaited := awaited_json(targets)) else {}),
    }


def _followed(facts: Facts) -> dict[str, object]:
    """What an operation is measured by; a mere plan is never carried out."""
    place = facts.resumes_at
    return {"followed": followed_json(place.targets, place.asked_at)} if facts.operation and place else {}


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
        "note": target.note or target.error or "",
    }


def target_offsets(targets: Iterable[Target]) -> Offsets:
    """The standby's offsets per source, topic and partition; partitions without a place are left out."""
    offsets: Offsets = {}
    for target in targets:
        if target.target_offset is not None:
            topic = offsets.setdefault(target.source, {}).setdefault(target.target_topic, {})
            topic[str(target.target_partition)] = target.target_offset
    return offsets


def prepare_request(facts: Facts, *, target_folder: str) -> PrepareRequest:
    """What the runner shall make of the checkpoint. The facts must be complete: report, resolution, choice, epoch."""
    report, place, choice = facts.report, facts.resumes_at, facts.choice
    if report is None or place is None or choice is None or facts.epoch is None or facts.operation is None:
        raise ValueError("a checkpoint is prepared only after everything was resolved")
    replanned: Resolution | None = facts.planned_resolution if choice.treatment is Treatment.REPLAN else None
    return PrepareRequest(
        checkpoint=report.checkpoint,
        target=target_folder,
        operation=facts.operation,
        epoch=facts.epoch,
        resume=facts.settings.resume.value,
        batch=report.batch,
        offsets=report.offsets,
        target_offsets=target_offsets(place.targets),
        treatment=choice.treatment,
        planned_target_offsets=target_offsets(replanned.targets) if replanned else None,
    )


def _merged(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Spark's ``startingOffsets`` shape: all sources in one map of topics."""
    merged: dict[str, dict[str, int]] = {}
    for topics in offsets.values():
        for topic, partitions in topics.items():
            merged.setdefault(topic, {}).update(partitions)
    return merged


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    seen = False
    for value in values:
        if value is None:
            return None
        total, seen = total + value, True
    return total if seen else None


def _exposure_seconds(target: Target) -> float | None:
    """Where no record is lacking, no time is, whatever the clocks on both sides tell."""
    return 0.0 if target.exposure_records == 0 and target.exposure_seconds is None else target.exposure_seconds


def _largest(values: Iterable[float | None]) -> float | None:
    largest: float | None = None
    for value in values:
        if value is None:
            return None
        largest = value if largest is None else max(largest, value)
    return largest
