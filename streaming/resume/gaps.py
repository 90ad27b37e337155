"""Offsets between what is remembered and the position, and records that may never be committed."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from state.model.entities import EndSample
from state.model.fingerprints import timestamps_of
from streaming.cluster_log import OFFSET, LogRecord
from streaming.resume import notes
from streaming.resume.methods.content_search import NEED_MORE, Cause, Found, NeedMore, NoPlace, Outcome, Search
from streaming.resume.methods.fingerprint_match import FingerprintMatcher
from streaming.resume.model import Want


def stay(found: Found, gap: int, *, end: int) -> Found:
    """Resume at the ring's place; the gap is read again, as far as the standby has it, or later.

    How much of it the standby has cannot be known: a filter may have left some of it out, and other records may lie
    there. Both numbers are upper bounds.
    """
    missing = None if found.missing is None else found.missing + gap
    repeats = None if found.repeats is None else min(found.repeats + gap, max(0, end - found.offset))
    note = f"the remembered records end {gap} before the checkpoint, and the records between cannot be counted"
    return replace(
        found, exact=False, is_partial=True, repeats=repeats, missing=missing, note=notes.joined(found.note, note)
    )


def move_on(
    found: Found,
    gap: int,
    ring: FingerprintMatcher,
    records: Sequence[LogRecord],
    *,
    old: EndSample | None,
    read_to: int,
    end: int,
) -> Found | NeedMore:
    """Move ``found`` on by ``gap`` records of the standby, of which ``records`` were read, up to ``read_to``.

    A cluster can die between the commit of a batch and the reading of its last records, and then the ring is older than
    the checkpoint. The records between cannot be recognised, only counted. That is sound only where both logs are
    dense: each old offset of the gap held a consumed record (the caller knows), and the replicator left out none of
    them. The latter shows in the sampled end of the old log, if the standby has come as far. From the ring's place on
    it holds as many records up to the newest time of that sample as the old log had offsets. Each of them is there
    once, and the last of them has that time. Everywhere else the query resumes at the ring (``stay``).
    """
    if found.missing or found.repeats != 0 or old is None or old.newest_timestamp_ms is None:
        return stay(found, gap, end=end)
    count, newest = old.end - ring.last.offset - 1, old.newest_timestamp_ms
    if count < gap or end - found.offset > MOST_COUNTED:
        return stay(found, gap, end=end)
    if read_to < end:
        return NEED_MORE
    after = records[bisect_left(records, found.offset, key=OFFSET) :]
    copies = [record for record in after if record.timestamp_ms <= newest and not record.append_time]
    each_once = len({(record.digest, record.timestamp_ms) for record in copies}) == len(copies)
    is_whole = len(copies) == count and copies == list(after[:count]) and copies[-1].timestamp_ms == newest
    if not (is_whole and each_once) or any(ring.newest(record) >= 0 for record in after):
        return stay(found, gap, end=end)
    return replace(found, offset=copies[gap - 1].offset + 1)


MOST_COUNTED = 20_000
"""Records behind the ring's place that are counted at most."""
TAIL = 32
"""How many of the records read last were read in one look, so a hole between them is one of the old log."""


def committed(want: Want) -> tuple[int, ...]:
    """Indices of the remembered records that were committed; empty where that makes no difference."""
    if not want.uncommitted:
        return ()
    known = tuple(i for i, record in enumerate(want.ring) if record.offset not in want.uncommitted)
    return known if len(known) < len(want.ring) else ()


def is_countable(want: Want, committed_only: bool) -> bool:
    """Whether offsets behind what is remembered may be counted over on the standby, if each held a record.

    Not where the query reads what is not committed and the log shows transactions, by their records or by the holes
    that their markers leave. Records between may be of one that was aborted, and the standby may have none of them.
    """
    last = want.ring[-TAIL:]
    if committed_only or not last:
        return True
    return not want.uncommitted and last[-1].offset - last[0].offset + 1 == len(last)


class PartialSearch(Search):
    """A search for the newest of the records read that the standby holds.

    ``ring`` has the committed ones, by which the lower bound was found; ``read`` has all, looked at offset by offset.
    The answer comes at the end of the log, for only then is it known which the standby lacks.

    A read_uncommitted query has read records that the standby may lack: those of transactions not committed. A
    replicator that reads read_committed copies no record of an aborted transaction, and of one that has not ended
    neither its records nor anything behind them. It keeps the order of the rest. So of the records read last those are
    looked for that the standby can hold: every committed one, and of the others those that are found there. The place
    is right after the newest of them. What is missing behind it will never come, once the standby holds a record that
    was not read: that one lies behind them all in the old log. A record of another writer looks the same. So it has to
    be no newer than what followed the position when the old log was last sampled (``ahead_ms``; None: nothing did).

    A replicator that reads read_uncommitted copies all of them; then the place is found among all records read, and
    none of this is needed.
    """

    def __init__(
        self,
        ring: FingerprintMatcher,
        read: FingerprintMatcher,
        *,
        lo: int,
        end: int,
        cut: bool = False,
        ahead_ms: int | None = None,
    ) -> None:
        super().__init__(ring, lo=lo, end=end, cut=cut)
        self._read = read
        self._ahead_ms = ahead_ms

    def feed(self, records: Sequence[LogRecord], next_offset: int) -> Outcome:
        self.records.extend(records)
        if next_offset < self.end:
            return NEED_MORE
        there = {index for record in self.records for index in self._read.indices(record)}
        sure = {record.offset for record in self.matcher.known}
        held = [each for i, each in enumerate(self._read.records) if each.offset in sure or i in there]
        search = Search(self._read.holding(held), lo=self.lo, end=self.end, cut=self.cut)
        found, self.is_by_end = search.feed(self.records, self.end), search.is_by_end
        return (
            self._weighed(found, len(self._read.records) - len(held), held[-1].offset)
            if isinstance(found, Found)
            else found
        )

    def _weighed(self, found: Found, lacking: int, newest: int) -> Found:
        """What is to be said of the records that the standby lacks: those behind the place may come yet."""
        note = f"the standby lacks {lacking} of the last {len(self._read.records)} records read: not committed"
        behind = [record for record in self._read.records if record.offset > newest]
        unseen = self._read.last.offset - newest - len(behind)
        if behind and unseen and found.missing is not None:
            lacks = found.missing + len(behind) + unseen
            repeats = None if found.repeats is None else found.repeats + unseen
            note = notes.joined(found.note, note)
            return replace(found, exact=False, is_partial=True, missing=lacks, repeats=repeats, note=note)
        if not behind or (found.missing == 0 and self._is_followed(found, max(each.timestamp_ms for each in behind))):
            return replace(found, note=notes.joined(found.note, note if lacking else ""))
        missing = None if found.missing is None else found.missing + len(behind)
        return replace(found, exact=False, missing=missing, note=notes.joined(found.note, note))

    def _is_followed(self, found: Found, newest_ms: int) -> bool:
        """Whether an unread record lies behind the place; an older one may be a read one that was sent again.

        The times of a standby that stamps records itself show nothing.
        """
        last_ms = self._ahead_ms
        if last_ms is None:
            return False
        later = (record for record in self.records if record.offset >= found.offset and not record.append_time)
        return any(self._read.newest(each) < 0 and newest_ms <= each.timestamp_ms <= last_ms for each in later)


def better(whole: Found | NoPlace | None, partial: Found | NoPlace | None) -> bool:
    """Whether the place by what the standby can hold is to be taken instead of the one by all records read."""
    if not isinstance(partial, Found):
        return False
    if not isinstance(whole, Found):
        return True
    return partial.exact and whole.missing != 0 and partial.offset <= whole.offset


def admitted(found: Found, ring: FingerprintMatcher, records: Sequence[LogRecord], *, behind: int) -> Found:
    """A read_committed query's place; not exact where aborted records lie before it as ordinary ones.

    ``behind``: how many records the standby holds behind the place.

    Such a query was never given what a read_uncommitted replicator copies as ordinary records: it shows where the old
    log has a hole and the standby a record.
    """
    known, strange = ring.filled([record for record in records if record.offset < found.offset])
    if not strange:
        return found
    share = strange / (known + strange)
    note = (
        f"{strange} of the {known + strange} records before the resume offset were never given to this "
        f"read_committed query, so about {round(behind * share)} of the {behind} after it are not meant for it either. "
        "The replicator copies aborted transactions as ordinary records, or the old log was compacted. Set the "
        "isolation.level of its source consumer to read_committed"
    )
    return replace(found, exact=False, note=notes.joined(found.note, note))


def normalised(want: Want, old: EndSample | None) -> Want:
    """The want with a ring that ends at or before its offset, and with the best T that is known.

    A ring tracked past the wanted offset is cut back to it, and T with it. Without a T, the ring's largest time is
    used, or the time of the sample that saw the old partition end at or before the position.
    """
    ring, time = want.ring, want.timestamp_ms
    cut = bool(ring) and ring[-1].offset >= want.offset
    if cut:
        ring = tuple(record for record in ring if record.offset < want.offset)
    if cut or time is None:
        time = max(timestamps_of(ring), default=None)
    if time is None and old is not None and old.end <= want.offset:
        time = int(old.sampled_at.timestamp() * 1000)
    place = want.offset if want.ring_offset is None else min(want.ring_offset, want.offset)
    return replace(want, ring=ring, ring_offset=place, timestamp_ms=time)


def nothing_read(want: Want, *, begin: int, end: int, old: EndSample | None) -> Found | NoPlace:
    """The place of a position without any remembered record: the standby's begin, if nothing can have been read.

    The standby may hold records there that this query has no business with, but none before it that it has. An old
    partition that had begun above 0 may have been read and then emptied by retention: then all may be replay. Where the
    standby's log begins above 0, records were deleted there, and unread ones may be among them.
    """
    if want.offset == 0:
        if begin == 0 or (old is not None and old.end == 0):
            return Found(begin, note=notes.NOTHING_READ)
        return Found(begin, exact=False, expired=True, note=notes.joined(notes.NOTHING_READ, notes.begun_late(begin)))
    if want.offset == want.begin_known:
        expired = begin > 0 and (old is None or old.end != want.offset)
        exact = begin == end and not expired
        return Found(begin, exact=exact, repeats=end - begin, expired=expired, note=notes.NOTHING_LEFT)
    return NoPlace(Cause.NOT_REMEMBERED)
