"""Method ``timestamp``: the first record on the standby whose time is at or after ``T - buffer`` (KIP-33, KIP-79).

Where the standby keeps order, partitions and timestamps, any buffer loses nothing; the buffer covers what does not:
another clock, a topic with other partitions, a record that expired. When no record is that new, the answer is the end
of a snapshot taken *before* the look-up, as a number. A record that arrives in between is then after it.
"""

from collections.abc import Iterable
from datetime import datetime

from state.settings.keys import MethodName
from streaming.resume import notes
from streaming.resume.methods.content_search import Found, is_retention
from streaming.resume.model import Rules, Want
from streaming.resume.standby_lookup import NotApplicable, ResumeOffset, StandbyLookup


def requested_time(timestamp_ms: int | None, buffer_ms: int) -> int | None:
    """``T - buffer``, never negative: negative times are reserved for Kafka's own questions."""
    return None if timestamp_ms is None else max(0, timestamp_ms - buffer_ms)


def common_time(wants: Iterable[Want], rules: Rules) -> tuple[int | None, int]:
    """T and X of a standby that partitions otherwise: those of the old partition with the smallest ``T - X``.

    T is None if it is unknown of one partition.
    """
    times = [(want.timestamp_ms, rules.buffer_of(want)) for want in wants]
    known = [(time, buffer_ms) for time, buffer_ms in times if time is not None]
    if not known or len(known) < len(times):
        return None, rules.buffer_ms
    return min(known, key=lambda each: each[0] - each[1])


def place(
    want: Want, rules: Rules, facts: StandbyLookup, now: datetime, *, idle: bool | None
) -> ResumeOffset | NotApplicable:
    """Clamp the look-up's answer to the snapshot, and never go past a place that content has proven.

    ``idle``: whether nothing followed the position on the old cluster when its end was last sampled; None unknown.
    """
    time = requested_time(want.timestamp_ms, rules.buffer_of(want))
    if time is None or facts.by_time is None:
        return NotApplicable(note=notes.NO_TIMESTAMP)
    if facts.by_time.error is not None:
        return NotApplicable(note=notes.failed(facts.by_time.error))
    found = facts.by_time.offset
    note = ""
    if found is None:
        found = facts.end
        note = notes.no_match(time, facts, now, idle=idle)
    elif facts.earliest_ms is not None and time < facts.earliest_ms and facts.begin > 0:
        note = notes.retention(facts.earliest_ms, time)
    offset = min(max(found, facts.begin), facts.end)
    if isinstance(facts.alignment, Found) and facts.alignment.offset < offset:
        offset = max(facts.begin, facts.alignment.offset)
        note = notes.joined(note, notes.TIME_PAST_CONTENT)
    if is_retention(facts.alignment) and offset > facts.begin:
        # What is left begins with unread records, so T, which may be the time of a look, has nothing to say.
        offset = facts.begin
        note = notes.ONLY_YOUNGER
    return ResumeOffset(method=MethodName.TIMESTAMP, offset=offset, note=note)
