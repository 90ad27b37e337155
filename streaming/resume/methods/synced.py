"""Method ``synced``: the place by MirrorMaker 2's offset syncs, as far as they are known to hold (``offset_syncs``).

It needs no record that is remembered and no time: it is what is left where the replicator changes what it copies. What
content proves or retention has taken overrules it, and it never answers past what the standby holds.
"""

from collections.abc import Sequence

from state.settings.keys import MethodName
from streaming.cluster_log import LogRecord
from streaming.resume import notes
from streaming.resume.methods.content_search import Found, is_retention
from streaming.resume.model import Want
from streaming.resume.offset_syncs import Syncs
from streaming.resume.standby_lookup import NotApplicable, ResumeOffset, StandbyLookup

WITNESSES = 2
"""How many records that syncs speak of must be where they say, if the content of a partition speaks against it."""


def witnesses(want: Want, syncs: Syncs) -> dict[int, int]:
    """Where the syncs say that remembered records lie on the standby, with the times of these."""
    times = {record.offset: record.timestamp_ms for record in want.ring}
    return {sync.downstream: times[sync.upstream] for sync in syncs.front if sync.upstream in times}


def against(want: Want, syncs: Syncs, records: Sequence[LogRecord] | None) -> str:
    """Why syncs are not believed against what content says; empty if they are. ``records``: the standby's there.

    Each remembered record that a sync speaks of must be where it says, and not all at one time.
    """
    expected = witnesses(want, syncs)
    there = {record.offset: record for record in records or ()}
    agreeing = [time for offset, time in expected.items() if offset in there and _is_of_time(there[offset], time)]
    if len(agreeing) < len(expected) or len(set(agreeing)) < WITNESSES:
        return notes.unconfirmed(len(agreeing), len(expected))
    return ""


def _is_of_time(record: LogRecord, time_ms: int) -> bool:
    return not record.append_time and record.timestamp_ms == time_ms


def place(want: Want, facts: StandbyLookup) -> ResumeOffset | NotApplicable:
    """Clamp the sync's answer to the snapshot, and never go past a place that content has proven."""
    syncs = facts.syncs
    if not isinstance(syncs, Syncs):
        return NotApplicable(note=syncs)
    found = syncs.translate(want.offset)
    if found is None:
        return NotApplicable(
            note=notes.before_syncs(want.offset, syncs.front[0].upstream) if syncs.front else notes.NO_SYNC
        )
    if found > facts.log_end:
        return NotApplicable(note=notes.SYNC_AHEAD)
    note, offset, expired = "", found, False
    if isinstance(facts.alignment, Found) and facts.alignment.offset < offset:
        offset, note = facts.alignment.offset, notes.SYNC_PAST_CONTENT
    elif is_retention(facts.alignment):
        # All that is left is younger than what was read, so a place behind the begin would skip unread records.
        offset, note = facts.begin, notes.ONLY_YOUNGER
    elif offset < facts.begin:
        note, expired = notes.SYNC_EXPIRED, True
    if offset > facts.end:
        offset, note = facts.end, notes.joined(note, notes.OPEN_TRANSACTION)
    repeats = syncs.repeats(want.offset) if offset == found else None
    return ResumeOffset(
        method=MethodName.SYNCED, offset=max(facts.begin, offset), repeats=repeats, note=note, expired=expired
    )
