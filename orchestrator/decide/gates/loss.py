"""Gates on what a move costs: places, gaps, times, exposure, and what would be read twice."""

from collections.abc import Iterable

from orchestrator.decide.gates.gate import UNKNOWN, Gate, answer
from orchestrator.decide.move_facts import PENDING, MoveFacts
from state.model.entities import TopicPartition
from state.settings.keys import Sink
from streaming.resume.model import Target

CAUGHT_UP = "caught-up"
OUTPUT_COPIED = "output-copied"
WAITED_FOR = frozenset({CAUGHT_UP, OUTPUT_COPIED})
"""The gates that a planned move waits at: the standby may have by and by what it lacks."""

BY_TIME = frozenset({"timestamp", "segment"})


def _targets(facts: MoveFacts) -> tuple[Target, ...]:
    return facts.resumes_at.targets if facts.resumes_at else ()


def _named(targets: Iterable[Target]) -> str:
    names = [f"{target.topic}-{target.partition}" for target in targets]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def place_found(facts: MoveFacts) -> Gate | None:
    if facts.resumes_at is None:
        return None
    lost = [target for target in _targets(facts) if target.target_offset is None]
    why = (lost[0].error or lost[0].note) if lost else "no partition was looked up"
    count = len(_targets(facts))
    return answer(
        "place-found",
        count > 0 and not lost,
        f"{count - len(lost)} of {count}",
        f"{count} partitions",
        "every partition has a resume offset",
        f"no resume offset for {_named(lost) or 'any partition'}: {why}",
    )


def caught_up(facts: MoveFacts) -> Gate | None:
    """A planned move loses nothing and repeats nothing: every place is exact, and every record read is there."""
    if facts.resumes_at is None or not facts.planned:
        return None
    behind = [target for target in _targets(facts) if not is_caught_up(target)]
    later = sum(target.replay_later_records or 0 for target in behind)
    waits = facts.fence == PENDING and all(target.replay_later_records for target in behind)
    worst = max(behind, key=lambda target: target.replay_later_records or 0, default=None)
    why = (worst.note or "its place is not exact") if worst is not None else ""
    count = len(_targets(facts))
    return answer(
        CAUGHT_UP,
        not behind or waits,
        f"{count - len(behind)} of {count} partitions",
        f"{count} partitions",
        f"{facts.target} has every record that {facts.query} has read"
        if not behind
        else f"{facts.target} lacks {later} records that {facts.query} has read; the move waits for them, for at most "
        f"{facts.policy.catch_up.total_seconds():g} s (policy.catch_up)",
        f"{facts.target} lacks {later} records that {facts.query} has read ({_named(behind)}: {why})",
    )


def output_copied(facts: MoveFacts) -> Gate | None:
    """What the query writes on the target lies behind the copies of all that it has written before.

    A query downstream follows later and goes on behind the copy of the last record that it has read. What was written
    to the target before that copy came would lie in front of it, and would never be read.
    """
    if facts.written is None or not facts.planned:
        return None
    behind = [target for target in facts.written if not is_caught_up(target)]
    waits = facts.fence == PENDING and all(target.replay_later_records for target in behind)
    topic, count = facts.handed_on, len(facts.written)
    lacks = f"{facts.target} lacks records of {topic}, which {facts.query} writes and another query reads"
    why = (behind[0].note or "its place is not exact") if behind else ""
    return answer(
        OUTPUT_COPIED,
        not behind or waits,
        f"{count - len(behind)} of {count} partitions",
        f"{count} partitions",
        f"{facts.target} has every record of {topic}, which {facts.query} writes and another query reads"
        if not behind
        else f"{lacks}; the move waits for them, for at most {facts.policy.catch_up.total_seconds():g} s "
        "(policy.catch_up)",
        f"{lacks} ({_named(behind)}: {why})",
    )


def upstream_output(facts: MoveFacts) -> Gate | None:
    """What an upstream query has written on the target lies behind where this one resumes.

    It moved there before, and records of its topic were copied after that: out of a tail that came back to life, or
    because somebody else writes to that topic, too. This query has read them on the source and goes on behind their
    copies, past all that the other one wrote on the target meanwhile (consent ``gap``).
    """
    if not facts.begun or facts.resumes_at is None:
        return None
    begun = [(target, *facts.begun.get(_place(target), ("", target.target_offset or 0))) for target in _targets(facts)]
    passed = [(target, name, (target.target_offset or 0) - end) for target, name, end in begun]
    passed = [(target, name, records) for target, name, records in passed if records > 0]
    names = ", ".join(sorted({name for _, name, _ in passed}))
    most = sum(records for _, _, records in passed)
    return answer(
        "upstream-output",
        not passed or "gap" in facts.consents,
        f"{len(passed)} partitions",
        "0 partitions",
        "consent gap is given" if passed else f"{facts.query} resumes before all that its upstream queries wrote there",
        f"{facts.query} would resume behind records that {names} may have written since it moved to {facts.target}, up "
        f"to {most}, and never read them ({_named(target for target, _, _ in passed)}): records were copied after that "
        "move; --consent gap accepts the loss",
    )


def is_caught_up(target: Target) -> bool:
    """Whether a query that goes on there reads each record once, now and later."""
    return target.exact and target.replay_records == 0 and target.replay_later_records == 0


def retention(facts: MoveFacts) -> Gate | None:
    """Retention on the standby may have deleted the place already: then there is a gap (consent ``gap``)."""
    if facts.resumes_at is None:
        return None
    earliest = facts.resumes_at.earliest_timestamps or {}
    gone = [target for target in _targets(facts) if _is_gone(target, earliest.get(_place(target)))]
    return answer(
        "retention",
        not gone or "gap" in facts.consents,
        f"{len(gone)} partitions",
        "0 partitions",
        "the standby still holds every resume offset" if not gone else "consent gap is given",
        f"the standby has deleted records from where {_named(gone)} would resume; --consent gap accepts the loss",
    )


def _place(target: Target) -> TopicPartition:
    return TopicPartition(target.target_topic, target.target_partition)


def _is_gone(target: Target, earliest_ms: int | None) -> bool:
    if target.expired:
        return True
    if target.is_proven or not target.begin or target.target_offset != target.begin:
        return False
    return earliest_ms is not None and target.timestamp_ms is not None and earliest_ms > target.timestamp_ms


def comparable(untold: str) -> str:
    """What is said of times where nothing speaks against them; ``untold`` topics do not say whose times they keep."""
    if not untold:
        return "times are comparable"
    return (
        f"cannot tell whether {untold} uses CreateTime or LogAppendTime: it did not answer, "
        "or our user has no ACL for DescribeConfigs"
    )


def timestamp_type(facts: MoveFacts) -> Gate | None:
    if facts.resumes_at is None:
        return None
    types = facts.resumes_at.timestamp_types or {}
    asked = sorted({target.target_topic for target in _targets(facts) if target.method in BY_TIME})
    odd = [topic for topic in asked if types.get(topic) == "LogAppendTime"]
    untold = [f"{topic} on {facts.target}" for topic in asked if topic not in types]
    return answer(
        "timestamp-type",
        not odd or "repeats" in facts.consents,
        "LogAppendTime" if odd else UNKNOWN if untold else "CreateTime" if asked else "not used",
        "CreateTime where time decides",
        "consent repeats is given" if odd else comparable(", ".join(untold)),
        f"{', '.join(odd)} uses LogAppendTime on {facts.target}: its timestamps are copy times, so records may be read "
        "twice; --consent repeats accepts it",
    )


def partitions_match(facts: MoveFacts) -> Gate | None:
    """Other partitions, other owners of keys: what goes by a common time is read again (consent ``repeats``).

    Partitions that were only added do no harm: the old ones are found by content, and of the new ones nothing was read.
    """
    if facts.resumes_at is None:
        return None
    counts = facts.resumes_at.fewer_partitions or {}
    mixed = sorted({t.target_topic for t in _targets(facts) if t.target_topic in counts and not t.is_proven})
    named = ", ".join(
        f"{topic}: {counts[topic][0]} on {facts.source}, {counts[topic][1]} on {facts.target}"
        for topic in mixed or sorted(counts)
    )
    return answer(
        "partitions-match",
        not mixed or "repeats" in facts.consents,
        named or "the same",
        "the same partitions, or only added ones",
        "consent repeats is given" if mixed else "every partition continues in the one of the same number",
        f"partition counts differ ({named}): all partitions resume at one common time and records may be read twice; "
        "--consent repeats accepts it",
    )


def exposure(facts: MoveFacts) -> Gate | None:
    """Time's worth of records that the standby does not have. Unknown is shown, and judged by the person who asked.

    A planned move leaves nothing behind: what the query has not read is still on its way.
    """
    if facts.resumes_at is None or facts.planned:
        return None
    untold = [target for target in _targets(facts) if target.exposure_seconds is None and target.exposure_records != 0]
    worst = exposure_seconds(facts)
    limit = facts.policy.max_exposure.total_seconds()
    within = worst is None or worst <= limit
    told = facts.attended or not untold
    bad = (
        f"the standby lacks {worst or 0:.1f} s of records"
        if not within
        else f"it is unknown what the standby lacks of {_named(untold)}"
    )
    return answer(
        "exposure",
        (within and told) or "loss" in facts.consents,
        UNKNOWN if worst is None or (within and not told) else f"{worst:.1f} s",
        f"{limit:g} s",
        "what the standby lacks is within the limit"
        if worst is not None
        else "it is unknown what the standby lacks: there is no sample",
        f"{bad}; --consent loss accepts it",
    )


def exposure_seconds(facts: MoveFacts) -> float | None:
    """Of the partition where the standby is furthest behind; None where none can tell."""
    seconds = [target.exposure_seconds for target in _targets(facts) if target.exposure_seconds is not None]
    return max(seconds, default=None)


def replay(facts: MoveFacts) -> Gate | None:
    """Records that would be read a second time. Unknown is shown, and judged by the person who asked."""
    if facts.resumes_at is None:
        return None
    count = repeats(facts)
    limit = facts.policy.max_replay
    within = facts.attended if count is None else count <= limit
    bad = "an unknown number of records" if count is None else f"{count} records"
    return answer(
        "replay",
        within or "repeats" in facts.consents,
        UNKNOWN if count is None else f"{count} records",
        f"{limit} records",
        "what is read twice is within the limit"
        if count is not None
        else "it is unknown how many records would be read twice",
        f"{bad} would be read twice; --consent repeats accepts it",
    )


def refuses_unknown_repeats(facts: MoveFacts) -> bool:
    """Whether an operation ends where it is not known how many records are read twice: worth to wait for the number."""
    if facts.operation is None or "repeats" in facts.consents:
        return False
    return not facts.attended or (bool(facts.stateful) and not facts.fresh and _tolerated(facts) is None)


def repeats(facts: MoveFacts) -> int | None:
    """Records that may reach the sink twice: those of the place, and those of the planned batch; None unknown."""
    certain, possible = replayed(facts), possibly_replayed(facts)
    return None if certain is None or possible is None else certain + possible


def replayed(facts: MoveFacts) -> int | None:
    """Records of committed batches that are read again; None unknown."""
    counts = [target.replay_records for target in _targets(facts)]
    return None if None in counts else sum(count or 0 for count in counts)


def possibly_replayed(facts: MoveFacts) -> int | None:
    """Records of the planned batch, which the sink may have; 0 where it is known not to, None unknown."""
    return facts.choice.repeats if facts.choice else 0


def repeats_into_state(facts: MoveFacts) -> Gate | None:
    """A repeat counted into state stays there for ever, so a stateful query refuses any, known or feared.

    Records that a lagging replicator would append *later* do not refuse: they come only if it runs again, which is in
    the operator's hands, and waiting would cost more. They are announced.
    """
    if facts.resumes_at is None or facts.fresh or not facts.stateful:
        return None
    risky = [target for target in _targets(facts) if not target.exact and target.replay_records != 0]
    unknown = any(target.replay_records is None for target in risky)
    count = sum(target.replay_records or 0 for target in risky)
    later = sum(target.replay_later_records or 0 for target in _targets(facts))
    calm = "no record would be counted twice in the state" + (
        f" now; {later} records would be if the replicator runs again and appends them" if later else ""
    )
    excuse = _tolerated(facts)
    return answer(
        "repeats-into-state",
        not risky or excuse is not None,
        UNKNOWN if unknown else f"{count} records",
        "0 records",
        excuse if risky and excuse else calm,
        f"records of {_named(risky)} would be counted twice in the state; --consent repeats accepts it, "
        f"replay_safe: true says that the query tolerates it",
    )


def _tolerated(facts: MoveFacts) -> str | None:
    """Why repeats may reach the state, if they may."""
    excuses = {
        "the query removes duplicates before its state": bool(facts.report and facts.report.deduplicates_ahead),
        "replay_safe is set for the query": facts.settings.replay_safe,
        "consent repeats is given": "repeats" in facts.consents,
    }
    return next((text for text, holds in excuses.items() if holds), None)


def fresh_allowed(facts: MoveFacts) -> Gate | None:
    """A fresh start loses state, and batch ids from 0 make a sink that drops by batch id lose whole batches."""
    if not facts.fresh or facts.stateful is None:
        return None
    why = "the query keeps state" if facts.stateful else ""
    harm = "would lose it"
    if facts.settings.sink is Sink.BATCH_ID or (facts.report and facts.report.sink_keeps_batch_ids):
        why, harm = "its sink drops batches whose id it knows", "would lose whole batches without an error"
    if not why and facts.report and facts.report.other_sources:
        why, harm = "it reads other sources than Kafka", "would read those again from their beginning"
    return answer(
        "fresh-allowed",
        not why or "fresh" in facts.consents,
        why or "stateless, sink without batch ids",
        "stateless, sink without batch ids",
        "a fresh start loses nothing here" if not why else "consent fresh is given",
        f"{why}: a fresh start {harm}; use resume: carry, or --consent fresh accepts it",
    )
