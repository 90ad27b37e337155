"""Gates on what a move costs: places, gaps, times, exposure, and what would be read twice."""

from datetime import timedelta

from orchestrator.decide.gates.gate import UNKNOWN, Gate, answer
from orchestrator.decide.gates.meaning import recognises_repeats
from orchestrator.decide.move_facts import MoveFacts
from orchestrator.decide.places import (
    exposed_at_most,
    lets_unknown_pass,
    most_of,
    named,
    repeated_later_at_most,
    seconds_at_most,
    sum_of,
    targets_of,
)
from orchestrator.decide.times import length
from state.plain_text import amount
from state.settings.keys import MethodName
from streaming.resume.model import Target

BY_TIME = frozenset({"timestamp", "segment"})


def place_found(facts: MoveFacts) -> Gate | None:
    if facts.resumes_at is None:
        return None
    lost = [target for target in targets_of(facts) if target.target_offset is None]
    why = (lost[0].error or lost[0].note) if lost else "no partition was looked up"
    count = len(targets_of(facts))
    return answer(
        "place-found",
        count > 0 and not lost,
        f"{count - len(lost)} of {count}",
        amount(count, "partition"),
        "every partition has a resume offset",
        f"no resume offset for {named(lost) or 'any partition'}: {why}",
    )


def retention(facts: MoveFacts) -> Gate | None:
    """Whether the standby still holds what follows the position; if not, there is a gap (consent ``gap``).

    Retention may have deleted it. A log that begins at 0 may lack it as well: its topic was recreated, or its
    replicator began later.
    """
    if facts.resumes_at is None:
        return None
    earliest = facts.resumes_at.earliest_timestamps or {}
    found = [(target, _is_gone(target, earliest.get(target.there))) for target in targets_of(facts)]
    gone = [target for target, is_gone in found if is_gone]
    unknown_ones = [target for target, is_gone in found if is_gone is None]
    never = [target for target in gone if not target.expired and not target.begin]
    unknown = f"it is unknown whether the standby holds what follows the position of {named(unknown_ones)}"
    bad = f"the standby has deleted records from where {named(gone)} would resume"
    if never:
        bad = (
            f"the log of {named(never)} on {facts.target} begins after what was read last: the records between were "
            "never copied, or the topic was recreated"
        )
    accepted = "gap" in facts.consents
    return answer(
        "retention",
        accepted or not (gone or (unknown_ones and not lets_unknown_pass(facts))),
        UNKNOWN if unknown_ones and not gone else amount(len(gone), "partition"),
        "0 partitions",
        "consent gap is given" if gone else unknown if unknown_ones else "the standby still holds every resume offset",
        f"{bad if gone else unknown}; --consent gap accepts the loss",
    )


def _is_gone(target: Target, earliest_ms: int | None) -> bool | None:
    """Whether records behind the position are missing; None where the times that would show it are unknown.

    A place that is proven by content has what it needs. Another one at the first offset of the log may come too late.
    It does if the first record is younger than the last one read, unless nothing was unread when last sampled.
    """
    if target.expired:
        return True
    if target.is_proven or target.target_offset is None or target.target_offset != target.begin:
        return False
    if not target.begin and not begins_late(target):
        return False
    if earliest_ms is None or target.timestamp_ms is None:
        return None
    return earliest_ms > target.timestamp_ms


def begins_late(target: Target) -> bool:
    """Whether a log that still holds its offset 0 may begin after the position: only times can show it then."""
    at_begin = target.target_offset == target.begin == 0 and not target.is_proven
    unread = bool(target.offset) and target.sampled_end != target.offset
    return at_begin and unread and target.method != MethodName.EXACT


def comparable(unknown_ones: str) -> str:
    """What is said of times where nothing speaks against them; ``unknown_ones`` do not show whose times they keep."""
    if not unknown_ones:
        return "times are comparable"
    return (
        f"cannot determine whether {unknown_ones} uses CreateTime or LogAppendTime: it did not answer, "
        "or our user has no ACL for DescribeConfigs"
    )


def timestamp_type(facts: MoveFacts) -> Gate | None:
    if facts.resumes_at is None:
        return None
    types = facts.resumes_at.timestamp_types or {}
    by_time = sorted({target.target_topic for target in targets_of(facts) if target.method in BY_TIME})
    odd = [topic for topic in by_time if types.get(topic) == "LogAppendTime"]
    unknown = [f"{topic} on {facts.target}" for topic in by_time if topic not in types]
    return answer(
        "timestamp-type",
        "repeats" in facts.consents or not (odd or (unknown and not lets_unknown_pass(facts))),
        "LogAppendTime" if odd else UNKNOWN if unknown else "CreateTime" if by_time else "not used",
        "CreateTime where time decides",
        "consent repeats is given" if odd else comparable(", ".join(unknown)),
        f"{', '.join(odd)} uses LogAppendTime on {facts.target}: its timestamps are copy times, so records may be read "
        "twice; --consent repeats accepts it"
        if odd
        else f"{comparable(', '.join(unknown))}; --consent repeats accepts it",
    )


def partitions_match(facts: MoveFacts) -> Gate | None:
    """Other partitions, other owners of keys: what goes by a common time is read again (consent ``repeats``).

    Partitions that were only added do no harm: the old ones are found by content, and of the new ones nothing was read.
    """
    if facts.resumes_at is None:
        return None
    counts = facts.resumes_at.fewer_partitions or {}
    apart = [target for target in targets_of(facts) if target.target_topic in counts and not _is_same_partition(target)]
    mixed = sorted({target.target_topic for target in apart})
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


def _is_same_partition(target: Target) -> bool:
    """Whether the place was found in the partition of the same number, by more than a time."""
    return target.is_proven or (target.target_offset is not None and target.method == MethodName.EXACT)


def exposure(facts: MoveFacts) -> Gate | None:
    """Time's worth of records that the standby does not have. Unknown is shown, and judged by the person who requested
    the move.

    It is what the last sample of the cluster that is left shows: what was written there since is unknown. A
    planned move leaves nothing behind: what the query has not read is still on its way.
    """
    if facts.resumes_at is None or facts.planned:
        return None
    unknown_ones = [target for target in targets_of(facts) if _is_exposure_unknown(target, attended=facts.attended)]
    bounded = any(target.exposure_records is None for target in targets_of(facts))
    bound = most_of(targets_of(facts)) if bounded else None
    worst = exposure_seconds(facts)
    limit = facts.policy.max_exposure.total_seconds()
    within = worst is None or worst <= limit
    known = not unknown_ones or lets_unknown_pass(facts)
    unknown = f"it is unknown what the standby lacks of {named(unknown_ones)}"
    good = "what the standby lacks is within the limit"
    if worst is None:
        good = "it is unknown what the standby lacks: there is no sample" if unknown_ones else good
    elif unknown_ones:
        good = f"{unknown}; of the others it lacks {worst:.1f} s at most"
    bad = unknown if within else f"the standby lacks {worst or 0:.1f} s of records"
    most = "" if bound is None else f"; at most {amount(bound.exposure_records, 'record')}"
    measured = UNKNOWN if within and (unknown_ones or worst is None) else f"{worst:.1f} s"
    since = _since_sampled(facts)
    return answer(
        "exposure",
        (within and known) or "loss" in facts.consents,
        f"at most {measured}" if bound is not None and measured != UNKNOWN else measured,
        f"{limit:g} s",
        f"{good}{most}{since}",
        f"{bad}{most}{since}; --consent loss accepts it",
    )


def _is_exposure_unknown(target: Target, *, attended: bool) -> bool:
    """Whether it is unknown how much is lacking; automatic mode wants the time, and the number of records or a bound.

    A bound of the records counts for it only with one of their time, which the limit is compared with.
    """
    if target.exposure_records == 0:
        return False
    if attended:
        return target.exposure_seconds is None and seconds_at_most(target) is None
    return exposed_at_most(target) is None or seconds_at_most(target) is None


def _since_sampled(facts: MoveFacts) -> str:
    """How old the oldest sample is that an exposure goes by; empty where none is known."""
    at = facts.resumes_at.looked_up_at if facts.resumes_at is not None else None
    samples = [target.sampled_at for target in targets_of(facts) if target.sampled_at is not None]
    if at is None or not samples:
        return ""
    ago = max(0.0, (at - min(samples)).total_seconds())
    words = f"{ago:.1f} s" if ago < 60 else length(timedelta(seconds=ago))
    return f", as {facts.source} was last seen {words} before; what was written there since is unknown"


def exposure_seconds(facts: MoveFacts) -> float | None:
    """Of the partition where the standby is furthest behind, a bound included; None where it is known of none."""
    seconds = [most for target in targets_of(facts) if (most := seconds_judged(target, facts)) is not None]
    return max(seconds, default=None)


def seconds_judged(target: Target, facts: MoveFacts) -> float | None:
    """The time that is compared with the limit. A person sees bounds; automatic mode has nothing but the worst case."""
    if target.exposure_seconds is None or not facts.attended:
        most = seconds_at_most(target)
        return most if most is not None else target.exposure_seconds
    return target.exposure_seconds


def replay(facts: MoveFacts) -> Gate | None:
    """Records that would be read a second time. Unknown is shown, and judged by the person who requested the move.

    In automatic mode those count, too, that a lagging replicator appends later: no person is there to keep it stopped.
    """
    if facts.resumes_at is None:
        return None
    now, later = repeats(facts), replayed_later(facts)
    most = sum_of(repeated_later_at_most(target) for target in targets_of(facts))
    count = now if facts.attended else sum_of((now, most))
    limit = facts.policy.max_replay
    within = lets_unknown_pass(facts) if count is None else count <= limit
    bad = "an unknown number of records" if count is None else amount(count, "record")
    if not facts.attended and now is not None and later != 0:
        bad = f"{amount(now, 'record')}, and {_number_of(later, most)} once the replicator appends them,"
    is_bound = count is not None and later is None and not facts.attended
    return answer(
        "replay",
        within or "repeats" in facts.consents,
        UNKNOWN if count is None else f"at most {amount(count, 'record')}" if is_bound else amount(count, "record"),
        amount(limit, "record"),
        "what is read twice is within the limit"
        if count is not None
        else "it is unknown how many records would be read twice",
        f"{bad} would be read twice; --consent repeats accepts it",
    )


def _number_of(known: int | None, most: int | None) -> str:
    """A number for a sentence, or its bound, or that it is unknown."""
    if known is not None:
        return str(known)
    return "an unknown number" if most is None else f"at most {most}"


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
    return sum_of(target.replay_records for target in targets_of(facts))


def replayed_later(facts: MoveFacts) -> int | None:
    """Records that were read and that the replicator has yet to append; None unknown."""
    return sum_of(target.replay_later_records for target in targets_of(facts))


def possibly_replayed(facts: MoveFacts) -> int | None:
    """Records of the planned batch, which the sink may have; 0 where it is known not to, None unknown."""
    if facts.choice is not None:
        return facts.choice.repeats
    return 0 if facts.report is None or facts.report.planned is None else None


def repeats_into_state(facts: MoveFacts) -> Gate | None:
    """A repeat counted into state stays there for ever, so a stateful query refuses any, known or feared.

    Records that a lagging replicator would append *later* do not refuse: they come only if it runs again, which is in
    the operator's hands, and waiting would cost more. They are announced. Where no person is there and their number is
    unknown, it refuses.
    """
    if facts.resumes_at is None or facts.fresh or not facts.stateful:
        return None
    risky = [target for target in targets_of(facts) if _may_repeat(target, attended=facts.attended)]
    count = sum_of(target.replay_records for target in risky)
    later = replayed_later(facts)
    most = sum_of(repeated_later_at_most(target) for target in targets_of(facts))
    unknown = count is None or (most is None and not facts.attended)
    named_later = "an unknown number of" if later is None and most is None else _number_of(later, most)
    calm = "no record would be counted twice in the state" + (
        f" now; {named_later} records would be if the replicator runs again and appends them" if later != 0 else ""
    )
    excuse = _tolerated(facts)
    return answer(
        "repeats-into-state",
        not risky or excuse is not None,
        UNKNOWN if unknown or count is None else amount(count, "record"),
        "0 records",
        excuse if risky and excuse else calm,
        f"records of {named(risky)} would be counted twice in the state; --consent repeats accepts it, "
        f"replay_safe: true says that the query tolerates it",
    )


def _may_repeat(target: Target, *, attended: bool) -> bool:
    """Whether records of it may be counted twice now, or at an unknown number later while no person watches."""
    now = target.replay_records is None or (not target.exact and target.replay_records != 0)
    return now or (repeated_later_at_most(target) is None and not attended)


def _tolerated(facts: MoveFacts) -> str | None:
    """Why repeats may reach the state, if they may."""
    excuses = {
        "the query removes duplicates before its state": _deduplicates(facts),
        "replay_safe is set for the query": facts.settings.replay_safe,
        "consent repeats is given": "repeats" in facts.consents,
    }
    return next((text for text, holds in excuses.items() if holds), None)


def _deduplicates(facts: MoveFacts) -> bool:
    """Whether a record that comes again is dropped ahead of the state: by a key that its copy has, too."""
    return bool(facts.report and facts.report.deduplicates_ahead) and recognises_repeats(facts)
