"""Gates of a rewind: on the time that is requested, and on what is still kept of it. Re-reading is the purpose of a
rewind. So what is read again is named and confirmed, and refused only above ``policy.max_replay``. State goes back with
the offsets, so nothing is counted in it twice.
"""

from orchestrator.decide.gates.gate import UNKNOWN, Gate, answer
from orchestrator.decide.gates.loss import replayed
from orchestrator.decide.move_facts import MoveFacts
from orchestrator.decide.times import instant
from state.plain_text import amount, few


def time_past(facts: MoveFacts) -> Gate | None:
    if facts.rewind is None:
        return None
    wanted, now = instant(facts.rewind.to_time_ms), instant(facts.rewind.now_ms)
    return answer(
        "time-past",
        facts.rewind.to_time_ms < facts.rewind.now_ms,
        wanted,
        f"before {now}",
        f"{wanted} is in the past",
        f"{wanted} is in the future (it is {now} now): a query can only go back",
    )


def expect_active(facts: MoveFacts) -> Gate | None:
    """A rewind stays on its cluster: the person who requested it saw the query there."""
    if facts.assignment is None:
        return None
    here = facts.assignment.cluster
    return answer(
        "expect-active",
        here == facts.target,
        here,
        facts.target,
        f"{facts.query} is on {here}, as expected",
        f"{facts.query} has moved to {here} since, where offsets differ: run the command again",
    )


def active_reachable(facts: MoveFacts) -> Gate | None:
    if facts.standby is None:
        return None
    found = facts.standby
    return answer(
        "active-reachable",
        found.reachable,
        f"{found.seconds * 1000:.0f} ms" if found.reachable else "no answer",
        f"{found.limit_seconds:g} s",
        f"{facts.target} answers",
        f"{facts.target} cannot be reached: {found.error}; if it is gone, move the query: "
        f"tideover failover {facts.query}",
    )


def batch_retained(facts: MoveFacts) -> Gate | None:
    """State goes back to a batch that the checkpoint still holds whole, or it is lost (consent ``fresh``)."""
    rewind = facts.rewind
    if rewind is None or not facts.stateful or facts.fresh:
        return None
    oldest = instant(rewind.oldest_ms)
    if not rewind.is_read and oldest is None:
        measured, good = UNKNOWN, "how far back the checkpoint reaches is checked once the query has stopped"
    elif rewind.batch is None:
        measured, good = f"back to {oldest}" if oldest else "no batch", "the checkpoint still holds a batch of then"
    else:
        measured = f"batch {rewind.batch.batch}, {instant(rewind.batch.planned_at_ms)}"
        good = f"the state goes back to the end of batch {rewind.batch.batch}"
    reach = (
        f"goes back to {oldest} at most (spark.sql.streaming.minBatchesToRetain): --to-time {oldest} or later"
        if oldest
        else "holds no batch with whole state"
    )
    return answer(
        "batch-retained",
        not rewind.loses_state,
        measured,
        f"planned at or before {instant(rewind.to_time_ms)}",
        good,
        f"the state of {facts.query} {reach}; --consent fresh loses the state and begins at the time itself",
    )


def retention(facts: MoveFacts) -> Gate | None:
    """Retention may have deleted what is to be read again (consent ``gap``)."""
    rewind = facts.rewind
    if rewind is None or facts.resumes_at is None:
        return None
    gone = rewind.earliest
    begins = few([
        f"{key.topic}-{key.partition} begins at {instant(time) or 'an unknown time'}"
        for key, time in sorted(gone.items())
    ])  # fmt: skip
    return answer(
        "retention",
        not gone or "gap" in facts.consents,
        amount(len(gone), "partition"),
        "0 partitions",
        f"{facts.target} still holds every record since then" if not gone else "consent gap is given",
        f"{facts.target} has deleted records that are to be read again: {begins}; --consent gap begins there",
    )


def goes_back(facts: MoveFacts) -> Gate | None:
    """A rewind that repeats nothing would stop the query for nothing."""
    rewind, count = facts.rewind, replayed(facts)
    if rewind is None or facts.resumes_at is None or not facts.resumes_at.is_complete:
        return None
    return answer(
        "goes-back",
        count is None or count > 0,
        UNKNOWN if count is None else amount(count, "record"),
        "at least 1 record",
        f"{facts.query} reads again what it has read since {instant(rewind.to_time_ms)}",
        f"{facts.query} has read nothing since {instant(rewind.to_time_ms)}: there is nothing to go back over",
    )
