"""The gates: named checks that can refuse an operation, each a small function of the facts.

A gate measures, names its limit and says one sentence; it is shown whether it holds or not, in the same words in
plan, operation, history and error. A gate whose facts are not known yet says nothing (None): the same list serves the
look before anything is stopped, the plan, the operation, and a standing readiness check.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from orchestrator.decide.facts import Facts
from state.model import TopicPartition
from state.settings import Sink
from streaming.resume.model import Target

BY_TIME = frozenset({"timestamp", "segment"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """One check's answer; ``text`` is a sentence for people."""

    name: str
    ok: bool
    measured: str
    limit: str
    text: str

    def as_json(self) -> dict[str, object]:
        """The gate as DESIGN's plan shows it."""
        return {"name": self.name, "ok": self.ok, "measured": self.measured, "limit": self.limit, "text": self.text}


def _gate(name: str, ok: bool, measured: object, limit: object, good: str, bad: str) -> Gate:
    return Gate(name=name, ok=ok, measured=str(measured), limit=str(limit), text=good if ok else bad)


def assigned(facts: Facts) -> Gate:
    ok = facts.assignment is not None
    return _gate(
        "assigned",
        ok,
        f"epoch {facts.assignment.epoch}" if facts.assignment else "none",
        "an assignment",
        f"{facts.query} is assigned",
        f"{facts.query} has never run: start one of its runners ({', '.join(facts.settings.runners)}) first",
    )


def expect_active(facts: Facts) -> Gate | None:
    if facts.expect_active is None or facts.assignment is None:
        return None
    here = facts.assignment.cluster
    return _gate(
        "expect-active",
        here == facts.expect_active,
        here,
        facts.expect_active,
        f"{facts.query} is on {here}, as expected",
        f"{facts.query} is on {here}, not on {facts.expect_active}",
    )


def not_already_there(facts: Facts) -> Gate | None:
    if facts.assignment is None:
        return None
    here = facts.assignment.cluster
    return _gate(
        "not-already-there",
        here != facts.target,
        here,
        f"not {facts.target}",
        f"{facts.query} is on {here}",
        f"{facts.query} is already on {facts.target}",
    )


def no_operation_open(facts: Facts) -> Gate:
    return _gate(
        "no-operation-open",
        facts.open_operation is None,
        facts.open_operation or "none",
        "none",
        "no other operation of this query is open",
        f"operation {facts.open_operation} of this query is open: join it, or wait for its end",
    )


def route_declared(facts: Facts) -> Gate:
    unnamed = sorted(topic for topic, there in (facts.topics or {}).items() if there is None)
    ok = facts.route is not None and not unnamed
    why = f"the route does not name topic {', '.join(unnamed)}" if unnamed else "no route is declared"
    return _gate(
        "route-declared",
        ok,
        "declared" if ok else "none",
        f"{facts.source} to {facts.target}",
        f"a route from {facts.source} to {facts.target} is declared",
        f"{why}: nothing says that {facts.target} holds the records of {facts.source}",
    )


def runner_alive(facts: Facts) -> Gate | None:
    if facts.runners is None:
        return None
    names = ", ".join(fact.runner for fact in facts.runners)
    return _gate(
        "runner-alive",
        bool(facts.runners),
        names or "none",
        "one of " + ", ".join(facts.settings.runners),
        f"alive: {names}",
        f"no runner of {facts.query} is alive: start one with tideover run --name {facts.settings.runners[0]}",
    )


def standby_reachable(facts: Facts) -> Gate | None:
    if facts.standby is None:
        return None
    return _gate(
        "standby-reachable",
        facts.standby.reachable,
        f"{facts.standby.seconds * 1000:.0f} ms" if facts.standby.reachable else "no answer",
        f"{facts.standby.limit_seconds:g} s",
        f"{facts.target} answers",
        f"{facts.target} cannot be reached: {facts.standby.error}",
    )


def topics_present(facts: Facts) -> Gate | None:
    if facts.standby is None or facts.standby.topics is None or facts.topics is None:
        return None
    wanted = sorted({there for there in facts.topics.values() if there is not None})
    found = facts.standby.topics
    missing = [topic for topic in wanted if topic not in found or found[topic].error or not found[topic].partitions]
    return _gate(
        "topics-present",
        not missing,
        f"{len(wanted) - len(missing)} of {len(wanted)}",
        f"{len(wanted)} topics",
        f"{facts.target} has every topic",
        f"{facts.target} has no topic {', '.join(missing)}",
    )


def partitions_present(facts: Facts) -> Gate | None:
    if facts.standby is None or facts.standby.topics is None or facts.topics is None or facts.report is None:
        return None
    few: list[str] = []
    for topics in facts.report.offsets.values():
        for topic, partitions in topics.items():
            there = facts.topics.get(topic)
            described = facts.standby.topics.get(there) if there else None
            if described is None or not described.partitions:
                continue
            lacking = {int(number) for number in partitions} - set(described.partitions)
            if lacking:
                few.append(f"{there} has {len(described.partitions)} of {len(partitions)}")
    return _gate(
        "partitions-present",
        not few or facts.fresh,
        "; ".join(few) or "all",
        "every partition of the checkpoint",
        "every partition of the checkpoint is there" if not few else "fewer partitions; a fresh start bears that",
        "; ".join(few) + " partitions: a checkpoint cannot be carried to fewer",
    )


def position_known(facts: Facts) -> Gate | None:
    if facts.report is None:
        return None
    batch = facts.report.batch
    return _gate(
        "position-known",
        batch is not None and bool(facts.report.offsets),
        f"batch {batch}" if batch is not None else "no committed batch",
        "a committed batch",
        f"batch {batch} is the last one committed",
        f"the checkpoint {facts.report.checkpoint} holds no committed batch: there is no position to carry",
    )


def _targets(facts: Facts) -> tuple[Target, ...]:
    return facts.resumes_at.targets if facts.resumes_at else ()


def _named(targets: Iterable[Target]) -> str:
    names = [f"{target.topic}-{target.partition}" for target in targets]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def place_found(facts: Facts) -> Gate | None:
    if facts.resumes_at is None:
        return None
    lost = [target for target in _targets(facts) if target.target_offset is None]
    why = (lost[0].error or lost[0].note) if lost else ""
    count = len(_targets(facts))
    return _gate(
        "place-found",
        not lost,
        f"{count - len(lost)} of {count}",
        f"{count} partitions",
        "every partition has its place",
        f"no place for {_named(lost)}: {why}",
    )


def retention(facts: Facts) -> Gate | None:
    """Retention on the standby may have deleted the place already: then there is a gap (consent ``gap``)."""
    if facts.resumes_at is None:
        return None
    earliest = facts.resumes_at.earliest_timestamps or {}
    gone = [target for target in _targets(facts) if _is_gone(target, earliest.get(_place(target)))]
    return _gate(
        "retention",
        not gone or "gap" in facts.consents,
        f"{len(gone)} partitions",
        "0 partitions",
        "the standby still holds every place" if not gone else "a gap is consented to",
        f"the standby has deleted the place of {_named(gone)}; consent gap accepts the loss",
    )


def _place(target: Target) -> TopicPartition:
    return TopicPartition(target.target_topic, target.target_partition)


def _is_gone(target: Target, earliest_ms: int | None) -> bool:
    if target.exact or not target.begin or target.target_offset != target.begin:
        return False
    return earliest_ms is not None and target.timestamp_ms is not None and earliest_ms > target.timestamp_ms


def timestamp_type(facts: Facts) -> Gate | None:
    if facts.resumes_at is None:
        return None
    types = facts.resumes_at.timestamp_types or {}
    asked = sorted({target.target_topic for target in _targets(facts) if target.method in BY_TIME})
    odd = [topic for topic in asked if types.get(topic) == "LogAppendTime"]
    return _gate(
        "timestamp-type",
        not odd or "repeats" in facts.consents,
        "LogAppendTime" if odd else "CreateTime" if asked else "not used",
        "CreateTime where time decides",
        "times are comparable" if not odd else "repeats are consented to",
        f"{', '.join(odd)} has LogAppendTime on {facts.target}: its times are those of copying; consent repeats",
    )


def exposure(facts: Facts) -> Gate | None:
    """Time's worth of records that the standby does not have. Unknown is shown, and judged by the operator."""
    if facts.resumes_at is None:
        return None
    seconds = [target.exposure_seconds for target in _targets(facts) if target.exposure_seconds is not None]
    worst = max(seconds, default=None)
    limit = facts.policy.max_exposure.total_seconds()
    ok = worst is None or worst <= limit or "loss" in facts.consents
    return _gate(
        "exposure",
        ok,
        "unknown" if worst is None else f"{worst:.1f} s",
        f"{limit:g} s",
        "what the standby lacks is within the limit" if worst is not None else "no sample tells what it lacks",
        f"the standby lacks {worst or 0:.1f} s of records; consent loss accepts it",
    )


def replay(facts: Facts) -> Gate | None:
    if facts.resumes_at is None:
        return None
    count = repeats(facts)
    limit = facts.policy.max_replay
    return _gate(
        "replay",
        count is None or count <= limit or "repeats" in facts.consents,
        "unknown" if count is None else f"{count} records",
        f"{limit} records",
        "what is read twice is within the limit" if count is not None else "what is read twice cannot be told",
        f"{count} records would be read twice; consent repeats accepts it",
    )


def repeats(facts: Facts) -> int | None:
    """Records that are forecast to reach the sink twice, of the place and of the planned batch; None unknown."""
    total = facts.choice.repeats if facts.choice else 0
    for target in _targets(facts):
        if target.replay_records is None or total is None:
            return None
        total += target.replay_records
    return total


def repeats_into_state(facts: Facts) -> Gate | None:
    """A repeat counted into state stays there for ever, so a stateful query refuses any, known or feared."""
    if facts.resumes_at is None or facts.fresh or not facts.stateful:
        return None
    risky = [target for target in _targets(facts) if not target.exact and target.replay_records != 0] + [
        target for target in _targets(facts) if target.replay_later_records
    ]
    unknown = any(target.replay_records is None for target in risky)
    count = sum((target.replay_records or 0) + (target.replay_later_records or 0) for target in risky)
    excuses = {
        "state metadata shows de-duplication ahead": bool(facts.report and facts.report.deduplicates_ahead),
        "the query says replay_safe": facts.settings.replay_safe,
        "repeats are consented to": "repeats" in facts.consents,
    }
    excuse = next((text for text, holds in excuses.items() if holds), None)
    return _gate(
        "repeats-into-state",
        not risky or excuse is not None,
        "unknown" if unknown else f"{count} records",
        "0 records",
        excuse if risky and excuse else "nothing is read twice into state",
        f"{_named(risky)} would be read twice into state; consent repeats, or say replay_safe",
    )


def fresh_allowed(facts: Facts) -> Gate | None:
    """A fresh start loses state, and batch ids from 0 make a sink that drops by batch id lose whole batches."""
    if not facts.fresh or facts.stateful is None:
        return None
    why = "the query keeps state" if facts.stateful else ""
    if facts.settings.sink is Sink.BATCH_ID or (facts.report and facts.report.sink_keeps_batch_ids):
        why = "its sink drops batches by id"
    return _gate(
        "fresh-allowed",
        not why or "fresh" in facts.consents,
        why or "stateless, and no sink by batch id",
        "stateless, and no sink by batch id",
        "a fresh start loses nothing here" if not why else "a fresh start is consented to",
        f"{why}: a fresh start would lose silently; use resume: carry, or consent fresh",
    )


def fence(facts: Facts) -> Gate | None:
    if facts.fence is None:
        return None
    return _gate(
        "fence",
        facts.fence != "none",
        facts.fence,
        "runner, process, application or consent",
        "the old run is proven stopped" if facts.fence != "pending" else "proven after the stop, before anything else",
        "nothing proves that the old run has stopped; consent unfenced takes the risk of two runs",
    )


GATES: tuple[Callable[[Facts], Gate | None], ...] = (
    assigned,
    expect_active,
    not_already_there,
    no_operation_open,
    route_declared,
    runner_alive,
    standby_reachable,
    topics_present,
    partitions_present,
    position_known,
    fence,
    place_found,
    retention,
    timestamp_type,
    exposure,
    replay,
    repeats_into_state,
    fresh_allowed,
)


def judge(facts: Facts) -> tuple[Gate, ...]:
    """Every gate that can be judged on these facts, in order."""
    return tuple(gate for check in GATES if (gate := check(facts)) is not None)


def refusal(gates: Iterable[Gate]) -> Gate | None:
    """The first gate that refuses."""
    return next((gate for gate in gates if not gate.ok), None)
