"""Method ``segment``: whole segments earlier, for brokers that cannot search by time (ListOffsets version 0).

The broker returns base offsets of segments whose file it last wrote before ``T - buffer``. A record that was not read
came to the standby then or later, so it lies behind such a segment. Resuming at the segment's begin skips nothing, and
repeats a segment and more. That holds by the standby's clock, whatever the records' own times are; the buffer covers
what the clocks differ by. The log's end is never taken for a segment, although the broker may name it.
"""

from datetime import datetime

from state.settings.keys import MethodName
from streaming.resume import notes
from streaming.resume.methods.content_search import Found, is_retention
from streaming.resume.methods.timestamp import requested_time
from streaming.resume.model import Rules, Want
from streaming.resume.standby_lookup import NotApplicable, ResumeOffset, StandbyLookup

REQUESTED = 2
"""Offsets to request: the newest may be the log's end."""


def buffer_of(want: Want, rules: Rules) -> int:
    """X in milliseconds; never less than the rules', as a measured one shows nothing of the standby's clock."""
    return max(rules.buffer_ms, rules.buffer_of(want))


def place(want: Want, rules: Rules, facts: StandbyLookup, now: datetime) -> ResumeOffset | NotApplicable:
    """The newest segment that is old enough, or the begin, clamped to the snapshot and to what content has proven."""
    time = requested_time(want.timestamp_ms, buffer_of(want, rules))
    if time is None:
        return NotApplicable(note=notes.NO_TIMESTAMP)
    if facts.segments is None:
        return NotApplicable(note="")
    if facts.segments.error is not None:
        return NotApplicable(note=notes.failed(facts.segments.error))
    if time > now.timestamp() * 1000:
        return NotApplicable(note=notes.future(time))
    bases = [offset for offset in facts.segments.offsets if offset < facts.end]
    offset = min(max(max(bases, default=facts.begin), facts.begin), facts.end)
    note = notes.SEGMENT if bases else notes.NO_SEGMENT
    if isinstance(facts.alignment, Found) and facts.alignment.offset < offset:
        offset, note = max(facts.begin, facts.alignment.offset), notes.joined(note, notes.TIME_PAST_CONTENT)
    if is_retention(facts.alignment):
        offset, note = facts.begin, notes.ONLY_YOUNGER
    return ResumeOffset(method=MethodName.SEGMENT, offset=offset, note=note)
