"""Records that lie behind the resume offset, or come behind it later, although the query has read them.

``Behind`` judges the copies that a replicator sent a second time before the move, ``Awaited`` those that come after it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from state.model.entities import Fingerprint
from state.model.fingerprints import back, timestamps_of
from streaming.cluster_log import LogRecord
from streaming.resume.methods.content_search import MOST_BOUND
from streaming.resume.methods.fingerprint_match import FingerprintMatcher
from streaming.resume.model import Want

IN_A_ROW = 4
"""How many old records in a row are looked for on the standby; fewer come late now and then, so they must be far older.
At the log's end one is enough, for there a copy may just have begun."""

FEW = 8
"""Fewer remembered records than these show no order of times."""

PROVEN = 16
"""How many remembered records in their order prove a second copy where contents repeat and times prove nothing."""

CHECKED = 8
"""Of this many old records at most a first copy is looked for."""

SEEN = 16
"""How many of the copies are remembered, to know them when they are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resent:
    """What was sent again of the records that were read before a place."""

    records: int | None = 0
    """Records behind the place that the query has read already, at most; None: it is unknown."""
    later: int | None = 0
    """Records read already that the same sender has yet to append, if it continues; at most. None: it is unknown."""
    seen: tuple[Fingerprint, ...] = ()
    """The newest of the copies where none of them is remembered, by their offsets on the standby."""
    note: str = ""

    def with_more(self, other: "Resent") -> "Resent":
        """The larger number of each; None where one is unknown. Without a copy in ``other`` nothing changes."""
        if self.records is None or not other.records:
            return self
        later = None if self.later is None or other.later is None else max(self.later, other.later)
        return replace(other if other.records > self.records else self, later=later)


NOTHING = Resent()


def unknown(note: str) -> Resent:
    """Where not all that lies behind the place could be looked at: neither number is known."""
    return Resent(records=None, later=None, note=note)


def most_later(want: Want) -> int | None:
    """Records that can come later at most, whatever was sent again; None where that bound says too little."""
    count = want.offset - (want.begin_known or 0)
    return count if count <= MOST_BOUND else None


def read_until_ms(records: Sequence[Fingerprint]) -> int:
    """Time after which nothing was read: the largest that is remembered, and by how much times went back added."""
    times = timestamps_of(records)
    return max(times) + back(times)


class Behind:
    """The standby's records behind a place, all of them up to its end, held against those that were read before it.

    The place is right behind the first copy of the last record read. What was sent again lies behind it, among records
    that were not read. It is never skipped, for unread records may lie between; it is counted, so that a gate can
    refuse it.

    A remembered record that comes again proves a second copy, and a replicator keeps its order. So all records up to
    the newest of them were read, but for those whose time is after all that was read. A copy that has not come as far
    as the remembered records shows by its times alone. Several records in a row are older than the disorder of the
    remembered ones allows. Those may also be late records, so the standby is searched for a first copy of some of them.
    """

    def __init__(
        self,
        ring: FingerprintMatcher,
        records: Sequence[LogRecord],
        *,
        keeps_offsets: bool = False,
        compacted: bool = False,
    ) -> None:
        self.records = records
        self._in_a_row = 1 if compacted else IN_A_ROW  # compaction may have left one of a row
        self._ring = ring
        self._top_ms = ring.top_ms
        self._is_timeless = not (keeps_offsets or ring.is_first) and _is_timeless(ring)
        last, alike = self._copies()
        self._last, self._alike = last, -1 if keeps_offsets else alike
        self._keeps_offsets = keeps_offsets
        stamped = any(each.append_time for each in records)
        self.needs_contents = stamped and not (keeps_offsets or ring.is_all)
        """Whether only contents show first copies: the standby has times of its own, and not all is remembered."""

    def proven(self) -> Resent:
        """What the remembered records alone prove, or allow."""
        if self._alike > self._last:
            return self._ambiguous(self._alike)
        if self._last < 0:
            return NOTHING
        return Resent(records=self._read(self._last), later=self._later(self._last), note=self._note(self._last))

    def suspects(self) -> list[int]:
        """Of the records behind the newest proven copy, some that are too old to be taken for unread; by position.

        All of them where only contents show first copies. Where times show nothing, a single one may be a copy as well.
        """
        if self.needs_contents:
            return list(range(self._last + 1, len(self.records)))
        row: list[int] = []
        found: list[int] = []
        oldest = min((each.timestamp_ms for each in self.records), default=self._top_ms)
        if oldest >= self._top_ms and not self._is_timeless:
            return found
        for at in range(self._last + 1, len(self.records)):
            if self.is_suspect(self.records[at]):
                row.append(at)
                continue
            is_enough = len(row) >= self._in_a_row or self._is_timeless
            found += row if is_enough else [old for old in row if self._is_no_latecomer(self.records[old])]
            row = []
        return _spread(found + row)

    def latecomers(self) -> list[int]:
        """All others behind the newest proven copy that may be old, by position: a single one may be late, or a copy.

        None where all that was read is remembered, nor where the standby has times of its own.
        """
        if self._ring.is_all or self._keeps_offsets or self.needs_contents:
            return []
        rest = range(self._last + 1, len(self.records))
        old = [at for at in rest if self._is_timeless or self.records[at].timestamp_ms <= self._read_until_ms]
        return [at for at in old if not self.records[at].append_time and self._ring.newest(self.records[at]) < 0]

    def recalled(self, late: Sequence[int], earlier: Sequence[LogRecord], *, place: int) -> Resent:
        """What latecomers are copies of ``earlier`` records, each with its time, and all before the last of them."""
        first = {(each.digest, each.timestamp_ms): each.offset for each in reversed(earlier)}
        found = {at: first.get((self.records[at].digest, self.records[at].timestamp_ms)) for at in late}
        copies = {at: offset for at, offset in found.items() if offset is not None}
        if not copies:
            return NOTHING
        return self.with_copies(max(copies), to_come=place - min(copies.values()) - 1)

    def with_copies(self, upto: int, *, to_come: int) -> Resent:
        """Once a first copy of a suspect is found: everything up to ``upto`` may be a copy, and the rest may follow."""
        if self._alike > upto:
            return self._ambiguous(self._alike, to_come=to_come)
        copies = [each for each in self.records[: upto + 1] if not self._is_unread(each)]
        seen = tuple(Fingerprint(each.offset, each.timestamp_ms, each.digest) for each in copies[-SEEN:])
        return Resent(records=len(copies), later=to_come, seen=seen, note=self._note(upto))

    def by_contents(self, earlier: Sequence[LogRecord], *, place: int, is_whole: bool) -> Resent | None:
        """What contents show: a record that equals one of the ``earlier`` ones may be a copy, and all before it; None
        where nothing does.

        ``is_whole``: no first copy can lie elsewhere than among them. If one can, each record may be a copy, and what
        is to come is unknown.
        """
        if not is_whole:
            note = "retention may have deleted first copies, so each record after the resume offset may be a second one"
            return Resent(records=len(self.records), later=None, note=note)
        first = {each.digest: each.offset for each in reversed(earlier)}
        copies = [at for at in range(self._last + 1, len(self.records)) if self.records[at].digest in first]
        if not copies:
            return None
        oldest = min(first[self.records[at].digest] for at in copies)
        return self.with_copies(copies[-1], to_come=place - oldest - 1)

    def unknown(self, at: int) -> Resent:
        """Where no first copy of old records was found, and not all could be searched for one."""
        offset = self.records[at].offset
        return unknown(
            f"records from {offset} on are older than those read last: whether they were read before is unknown"
        )

    def _ambiguous(self, upto: int, *, to_come: int = 0) -> Resent:
        """Up to the last record that may be a copy; ``to_come``: what is to come behind another copy that was found."""
        at, later = self.records[upto].offset, self._later(upto)
        note = f"the record at {at} may be new, or one of the equal records that were read: it is counted as read"
        return Resent(records=self._read(upto), later=None if later is None else max(later, to_come), note=note)

    def _later(self, upto: int) -> int | None:
        """How many offsets were read behind the oldest record that this one may be a copy of; None: it may be older."""
        record = self.records[upto]
        oldest = self._ring.indices(record)[-1]
        if not self._ring.is_whole and not self._is_distinctive(record) and self._may_be_before_all(record):
            return None
        return self._ring.last.offset - self._ring.records[oldest].offset

    def _may_be_before_all(self, record: LogRecord) -> bool:
        """Whether a record equal to this one may have been read before all that is remembered."""
        return record.append_time or record.timestamp_ms <= min(self._ring.known.timestamps) + self._slack_ms

    def _note(self, upto: int) -> str:
        last = self.records[upto].offset
        return f"{self._read(upto)} records from here to {last} were read before: the replicator sent them again"

    def _read(self, upto: int) -> int:
        """Records up to there that are not known to be unread."""
        return sum(not self._is_unread(each) for each in self.records[: upto + 1])

    def _is_unread(self, record: LogRecord) -> bool:
        is_reported = not (record.append_time or self._is_timeless)
        return is_reported and record.timestamp_ms > self._read_until_ms

    def _is_older(self, record: LogRecord, top_ms: int) -> bool:
        """Whether rows of unread records that follow one of that time do not go back so far."""
        return not record.append_time and record.timestamp_ms < top_ms - self._slack_ms

    def _is_no_latecomer(self, record: LogRecord) -> bool:
        """Whether even a single one of the remembered records never went back so far."""
        return record.timestamp_ms < self._top_ms - 2 * self._back_ms

    def is_suspect(self, record: LogRecord) -> bool:
        """Whether a first copy is to be looked for; where times go back over all that is remembered, of all but new.

        Where a handful is remembered, or records of one time, and more was read before them, times show nothing either.
        """
        if self._is_timeless:
            return not record.append_time and (self._ring.size < FEW or record.timestamp_ms <= self._top_ms)
        times = self._ring.known.timestamps
        is_wild = self._slack_ms > 0 and self._slack_ms >= self._top_ms - min(times)
        return self._is_older(record, self._top_ms + self._slack_ms if is_wild else self._top_ms)

    def since_ms(self, record: LogRecord) -> int:
        """A time from which on a first copy of it is looked for: where none is as old there, none lay before that."""
        return 0 if self._is_timeless else max(0, record.timestamp_ms - self._back_ms)

    def _copies(self) -> tuple[int, int]:
        """The last copy of a remembered record, and the last record that may be one; -1 for none."""
        last = alike = -1
        if set(self._ring.known.digests).isdisjoint(each.digest for each in self.records):
            return last, alike
        run, before, top = 0, -1, self._top_ms
        for at, record in enumerate(self.records):
            index = self._ring.newest(record)
            run = run + 1 if 0 <= before == index - 1 else int(index >= 0)
            before = index
            if index < 0:
                top = max(top, record.timestamp_ms)
            elif self._is_distinctive(record) or self._is_older(record, top) or run >= _enough(record):
                last = at
            else:
                alike = at
        return last, alike

    def _is_distinctive(self, record: LogRecord) -> bool:
        """Whether contents and times do not repeat on their own, so that one equal record is proof enough."""
        return self._is_known_by_content if record.append_time else self._is_known_by_time

    @cached_property
    def _read_until_ms(self) -> int:
        return read_until_ms(self._ring.records)

    @cached_property
    def _back_ms(self) -> int:
        return back(self._ring.known.timestamps)

    @cached_property
    def _slack_ms(self) -> int:
        return 2 * _most_back_ms(self._ring.known.timestamps)

    @cached_property
    def _is_known_by_content(self) -> bool:
        return len(set(self._ring.known.digests)) == self._ring.size

    @cached_property
    def _is_known_by_time(self) -> bool:
        return len({(each.digest, each.timestamp_ms) for each in self._ring.known}) == self._ring.size


def _is_timeless(ring: FingerprintMatcher) -> bool:
    """Whether these show nothing of how far times go back."""
    return ring.size < FEW or min(ring.known.timestamps) == ring.top_ms


def _enough(record: LogRecord) -> int:
    """How many remembered records in their order prove a second copy where some of them are like others."""
    return PROVEN if record.append_time else IN_A_ROW


def _most_back_ms(times: Sequence[int]) -> int:
    """By how much all the times of a row lay behind the largest before them, at most."""
    tops = list(accumulate(times, max))[IN_A_ROW - 1 :]
    rows = (max(times[end - IN_A_ROW : end]) for end in range(IN_A_ROW, len(times) + 1))
    return max((top - row for top, row in zip(tops, rows, strict=True)), default=0)


def _spread(found: Sequence[int]) -> list[int]:
    """The last one, the first one, and some between, in this order."""
    if len(found) <= CHECKED:
        return [*found[-1:], *found[:-1]]
    step = (len(found) - 1) / (CHECKED - 1)
    return [found[-1], *(found[round(step * turn)] for turn in range(CHECKED - 1))]


Identity = tuple[int, bytes]
"""``(timestamp_ms, digest)``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Awaited:
    """What one partition of the standby lacked at the move, of the records that were read already.

    A standby that lags is resumed at its end. What it lacked then comes when the replicator runs again, and is read a
    second time. Offsets do not distinguish these records from new ones, for producers write to the standby by then;
    their fingerprints can. They are kept with the operation, because positions are kept for a few batches only. The
    replicator keeps its order, so once one remembered record has come, those announced before it have come as well.
    """

    announced: int
    missing: tuple[Identity, ...]
    """The newest of them, in their order, as far as they have not come yet."""
    matched: int = 0
    """How many of those that were remembered have come."""

    @property
    def came(self) -> int | None:
        """How many of the announced have come; None where none of them was ever remembered."""
        remembered = self.matched + len(self.missing)
        if self.announced and not remembered:
            return None
        return self.matched + self.announced - remembered if self.matched else 0

    def after(self, records: Iterable[LogRecord]) -> "Awaited":
        """The same once these records have been read; a record that comes twice counts once."""
        missing = list(self.missing)
        waiting = Counter(digest for _, digest in missing)
        for record in records:
            if not waiting[record.digest]:
                continue
            known = (each for each in missing if each[1] == record.digest)
            found = next((each for each in known if record.append_time or each[0] == record.timestamp_ms), None)
            if found is not None:
                missing.remove(found)
                waiting[record.digest] -= 1
        return replace(self, missing=tuple(missing), matched=self.matched + len(self.missing) - len(missing))


def remembered(want: Want, missing: int | None) -> tuple[Fingerprint, ...]:
    """Of the ``missing`` offsets before the wanted one, those whose records the ring holds.

    None where all that was read is missing at most and the ring holds a part of it: then no record that comes shows how
    many have come.
    """
    gap = max(0, want.offset - want.ring_offset) if want.ring_offset is not None else 0
    count = (missing or 0) - gap  # records of the gap were counted, never read: nothing is known of them
    ring = tuple(each for each in want.ring if each.offset < want.offset)
    if count <= 0 or not ring:
        return ()
    last = ring[-1].offset
    is_bound = count <= MOST_BOUND and count > last - (want.begin_known or 0) and count > len(ring)
    return () if is_bound else tuple(each for each in ring if each.offset > last - count)
