"""Whether one record of the standby ends the same run of records as a remembered one.

One equal record proves little where payloads repeat, so the records *before* it must agree too. Walking backwards from
a candidate, each record of the standby is one of three. It is the expected remembered one, or a copy of a newer
remembered one (a restarted replicator sends again: free). Or it is a stranger that fills a hole of the old offsets at
that place. That is an aborted or compacted record that was replicated all the same: at most as many as the hole is
wide, none later than all that was read. Anything else rejects. A stranger may as well be an unread record that a
replicator sent out of turn, so where there is one, all that is remembered has to agree.

Equal means same digest and same timestamp; in a batch with the LogAppendTime bit the broker's clock replaced the
timestamp, so there the digest alone decides.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from statistics import median_low
from typing import NamedTuple

from state.model.entities import Fingerprint
from state.model.fingerprints import Fingerprints, back
from streaming.cluster_log import LogRecord


class Fit(Enum):
    """How far a candidate's context agrees."""

    FULL = "full"
    CUT = "cut"
    """Agreed as far back as the standby was read."""
    NO = "no"


class Walk(NamedTuple):
    """One walk backwards from a candidate."""

    fit: Fit
    agreed: int
    """Remembered records that were met, the candidate itself included."""
    unbroken: bool
    """Whether nothing else lay between them."""
    young: int | None = None
    """Offset of the first record before ``FEW`` of them that fills a hole and is as young as the newest one read."""
    again: int | None = None
    """Offset of the first record that seems to be sent again."""


WIDEST = 128
"""How many of the last records count at most."""

FEW = 4
"""Fewer remembered records behind what fills a hole may be unread ones that equal them."""

LONG = 16
"""So many remembered records at least show by their times that the standby lags, where it holds none of them."""


class FingerprintMatcher:
    """One partition's remembered records, oldest first, indexed for the walk; the last ``context`` of them count.

    Where just this many end a run that was in the log before, more count. It is as many as no other run in the ring
    ends with, up to ``WIDEST``, and only over offsets without holes. ``records`` must not be empty. With
    ``timed=False`` the standby keeps no times, so that records of the same content are the same. Then as many count as
    it takes to reach one whose content the ring has once. ``begin`` is where the old partition began when it was last
    sampled. ``disorder_ms`` is how far an unread record's time may lie before that of read ones: X of ``T - X``.
    """

    def __init__(
        self,
        records: Iterable[Fingerprint],
        context: int,
        *,
        timed: bool = True,
        begin: int = 0,
        disorder_ms: int = 0,
    ) -> None:
        self._requested = (context, timed, begin, disorder_ms)
        self._disorder_ms = disorder_ms
        self.known = Fingerprints.of(records)
        self.size = len(self.known)
        self.context = _distinctive_context(self.known, min(context, self.size), timed=timed)
        self.last = self.known[-1]
        self.hidden = self.last.offset - self._offset(self.size - self.context) + 1 - self.context
        """How many old offsets between the last ``context`` records are missing (holes)."""
        self.is_whole = self.last.offset == self.size - 1
        """Whether it holds every record of the partition up to its last one, from offset 0 on."""
        self.is_first = self.known.first <= begin
        """Whether nothing was read before them."""
        self.most_read = self.last.offset + 1 - min(begin, self.known.first)
        """How many offsets up to the last of them can have been read."""

    @cached_property
    def records(self) -> tuple[Fingerprint, ...]:
        """All of them, unpacked; mostly not needed."""
        return tuple(self.known)

    @property
    def tail(self) -> Fingerprints:
        """The last ``context`` of them."""
        return self.known[-self.context :]

    @cached_property
    def top_ms(self) -> int:
        """The latest time among them."""
        return max(self.known.timestamps)

    @cached_property
    def is_of_one_time(self) -> bool:
        """Whether all of them have the same time, so that times show no order."""
        return min(self.known.timestamps) == self.top_ms

    @cached_property
    def _young_ms(self) -> int:
        """From when on a record is not older than half of these, the disorder taken off."""
        return median_low(self.known.timestamps) - self._disorder_ms

    def holding(self, records: Sequence[Fingerprint]) -> "FingerprintMatcher":
        """The same with other records."""
        context, timed, begin, disorder_ms = self._requested
        return FingerprintMatcher(records, context, timed=timed, begin=begin, disorder_ms=disorder_ms)

    @cached_property
    def _may_come_twice(self) -> bool:
        """Whether an unread record may equal the last one: its content repeats, or too little is known to say."""
        return self.size < LONG // 2 or self.known.alike(self.last.digest) > 1

    def last_is_unique(self, *, append_time: bool) -> bool:
        """Whether no other remembered record equals the last one; its time counts unless the standby has its own."""
        if self.known.alike(self.last.digest) == 1:
            return True
        same = [record for record in self.records if record.digest == self.last.digest]
        return sum(append_time or record.timestamp_ms == self.last.timestamp_ms for record in same) == 1

    def may_be_unread(self, time_ms: int | None, *, append_time: bool) -> bool:
        """Whether a record of that time that is none of those remembered may be unread, and not older than they are.

        So it is where the old partition held nothing older, or where its time with the disorder added has reached that
        of half of them. One of the far future or past does not move the half. An append time proves nothing.
        """
        return self.is_first or (not append_time and time_ms is not None and time_ms >= self._young_ms)

    @property
    def unbroken(self) -> int:
        """How many of the last records have consecutive offsets."""
        return self.known.unbroken

    @property
    def is_all(self) -> bool:
        """Whether every record that was read up to the last of them is among them."""
        return self.is_first and self.unbroken == self.size

    def is_distinct(self, agreed: int) -> bool:
        """Whether one of the last ``agreed`` records has a content that no other remembered one has.

        Without times a run of nothing but common contents may have been in the log before the ring begins.
        """
        return 0 < self._single <= agreed

    @cached_property
    def _single(self) -> int:
        return _newest_single(self.known)

    @cached_property
    def _newest(self) -> dict[tuple[bytes, int], int]:
        return {each: i for i, each in enumerate(zip(self.known.digests, self.known.timestamps, strict=True))}

    @cached_property
    def _newest_digest(self) -> dict[bytes, int]:
        return {digest: i for i, digest in enumerate(self.known.digests)}

    def is_same(self, seen: LogRecord, index: int) -> bool:
        """Whether the standby's record equals the remembered one at ``index``."""
        _, timestamp_ms, digest = self.known.at(index)
        return seen.digest == digest and (seen.append_time or seen.timestamp_ms == timestamp_ms)

    def is_only(self, seen: LogRecord) -> bool:
        """Whether ``seen`` equals one remembered record and no other one; never where the standby has its own times."""
        index = -1 if seen.append_time else self.newest(seen)
        return index >= 0 and (self.known.alike(seen.digest) == 1 or len(self.indices(seen)) == 1)

    @cached_property
    def is_distinctive(self) -> bool:
        """Whether these are enough, and each unlike all others, that an equal record is a copy of one of them."""
        return self.size >= LONG // 2 and len({(each.digest, each.timestamp_ms) for each in self.known}) == self.size

    @property
    def is_long(self) -> bool:
        """Whether records were read before these, and these are too many to be left out all at once."""
        return self.size >= LONG and not self.is_first

    @property
    def whole_from_ms(self) -> int | None:
        """A time that lies before those of all of these, by their disorder; None where times are not set."""
        oldest = min(self.known.timestamps)
        return None if oldest < 0 else max(0, oldest - back(self.known.timestamps))

    def newest(self, seen: LogRecord) -> int:
        """Index of the newest remembered record that equals ``seen``; -1 when none does."""
        if seen.append_time:
            return self._newest_digest.get(seen.digest, -1)
        return self._newest.get((seen.digest, seen.timestamp_ms), -1)

    def indices(self, seen: LogRecord) -> list[int]:
        """Indices of all remembered records that equal ``seen``, newest first."""
        return [i for i in range(self.newest(seen), -1, -1) if self.is_same(seen, i)]

    @property
    def holed(self) -> bool:
        """Whether old offsets are missing between the last ``context`` records."""
        return self.hidden > 0

    def between(self, index: int, agreed: int) -> int:
        """How many old offsets are missing between the last ``agreed`` records up to ``index``."""
        return self._offset(index) - self._offset(max(0, index + 1 - agreed)) + 1 - min(agreed, index + 1)

    def fit(self, records: Sequence[LogRecord], at: int, index: int) -> Walk:
        """Walk backwards from ``records[at]``, taken for the remembered record ``index``."""
        if not self.is_same(records[at], index):
            return Walk(Fit.NO, 0, unbroken=True)
        oldest = max(0, index + 1 - self.context)
        agreed, wanted, here, young, again = 1, index - 1, at - 1, None, None
        budget = widest = self._hole(wanted) if wanted >= oldest else 0
        while wanted >= oldest:
            if here < 0:
                return Walk(Fit.CUT, agreed, unbroken=at - here == agreed, young=young, again=again)
            seen = records[here]
            if self.is_same(seen, wanted):
                agreed, wanted = agreed + 1, wanted - 1
                budget = self._hole(wanted) if wanted >= oldest else 0
                widest = max(widest, budget)
            elif self.newest(seen) > wanted:
                budget = widest  # sent again, and what filled its hole may be sent again with it
                again = seen.offset
            elif budget > 0 and not self._is_later(seen):
                budget, oldest = budget - 1, 0  # it may be an unread one that came out of turn: then all must agree
                is_young = not seen.append_time and seen.timestamp_ms == self.top_ms
                young = seen.offset if is_young and agreed < FEW and self._may_come_twice else young
            else:
                return Walk(Fit.NO, agreed, unbroken=False)
            here -= 1
        return Walk(Fit.FULL, agreed, unbroken=at - here == agreed, young=young, again=again)

    def _is_later(self, seen: LogRecord) -> bool:
        """Whether a record is later than all that was read, and so rather an unread one that overtook."""
        return not seen.append_time and seen.timestamp_ms > self.top_ms

    def filled(self, records: Sequence[LogRecord]) -> tuple[int, int]:
        """Walking back from the last of the standby's records: how many are remembered, how many fill old holes."""
        known = strange = fillers = budget = 0
        wanted = self.size - 1
        for seen in reversed(records):
            if wanted >= 0 and self.is_same(seen, wanted):
                known, strange, fillers, wanted = known + 1, strange + fillers, 0, wanted - 1
                budget = self._hole(wanted) if wanted >= 0 else 0
            elif self.newest(seen) <= wanted:
                if budget == 0:
                    break
                budget, fillers = budget - 1, fillers + (not seen.uncommitted)
        return known, strange

    def _hole(self, index: int) -> int:
        return self._offset(index + 1) - self._offset(index) - 1

    def _offset(self, index: int) -> int:
        return self.known.at(index)[0]

    def stranger(self, seen: Sequence[LogRecord], *, from_begin: bool = False) -> LogRecord | None:
        """The first record of a compacted log that may be an unread one although remembered ones follow it.

        Between two remembered records others may only fill holes of the old offsets, and then no more offsets lie
        between their copies than between themselves. Before the first of them only older ones lie; younger ones are
        there if all that is left of the remembered records is what was sent again. Where these are few or alike, one
        that is left may be unread. So none may be as young as the oldest, not even where a hole is, and none may be
        there more often than it was read. ``seen`` ends with a remembered one.

        Where all that was read is remembered, any other record may be unread, however old. Before the first remembered
        one that needs a first copy of each of them, and all of these removed: as many offsets without a record. It
        needs a time that is no more than the disorder before theirs, too: else the log held it before the copies.
        ``from_begin``: ``seen`` begins where the log does, so that these can be counted.
        """
        oldest, youngest = min(self.known.timestamps), max(self.tail.timestamps)
        last: tuple[int, int] | None = None
        others: list[LogRecord] = []
        surplus = None if self.is_distinctive else self.surplus(seen)
        survivors = len({self.newest(record) for record in seen} - {-1})
        is_alone = survivors < FEW and any(self.known.alike(each.digest) > 1 for each in seen)
        shows_order = self.is_distinctive and not is_alone
        for at, record in enumerate(seen):
            index = self.newest(record)
            if record is surplus:
                return record
            if index < 0:
                is_young = record.timestamp_ms >= (youngest if last is None and shows_order else oldest)
                is_near = from_begin and record.timestamp_ms >= oldest - self._disorder_ms
                may_follow = last is not None or (is_near and record.offset - at >= survivors)
                if is_young or (self.is_whole and may_follow):
                    others.append(record)
                continue
            fills = (
                last is not None and self.is_distinctive and self._is_hole(last, (index, record.offset), len(others))
            )
            if others and not fills:
                return others[0]
            last, others = (index, record.offset), []
        return None

    def surplus(self, seen: Sequence[LogRecord]) -> LogRecord | None:
        """The first of these that is there more often than it was read, as far as that is remembered.

        Where all that was read is remembered, so is one behind a read one that was never read, unless it is older.
        """
        copies = Counter[int]()
        oldest = min(self.known.timestamps)
        for record in seen:
            index = self.newest(record)
            if index >= 0:
                copies[index] += 1
                if copies[index] > len(self.indices(record)):
                    return record
            elif copies and self.is_all and (record.append_time or record.timestamp_ms >= oldest):
                return record
        return None

    def behind_first(self, agreed: int, *, append_time: bool) -> int:
        """How many offsets were read behind the newest of the last ``agreed`` records that is the first of its kind.

        A restarted replicator may have sent those behind it before: each equals an older one.
        """
        keys = [(record.digest, 0 if append_time else record.timestamp_ms) for record in self.records]
        first: dict[tuple[bytes, int], int] = {}
        for index, key in enumerate(keys):
            first.setdefault(key, index)
        newest = max(first[key] for key in keys[-agreed:])
        return self.last.offset - self.records[newest].offset

    def come_again(self, seen: Sequence[LogRecord]) -> bool:
        """Whether some of the records up to the place were sent again, and not only written alike.

        One of them was aborted, or may be: its replicator sends it again. Or more lie there than offsets were read;
        where offsets have no holes, those before ``seen`` count as well. Or a remembered one does more often than it
        was read, unless it may have been read before all of these. Or another one comes again after a younger one.
        Where the standby has times of its own, contents that repeat show nothing.
        """
        if any(record.uncommitted for record in seen):
            return True
        if any(record.append_time for record in seen):
            return False
        first, last = seen[0].offset, seen[-1].offset
        is_dense = last - first + 1 == len(seen)
        if len(seen) + is_dense * first > self.last.offset + 1:
            return True
        read = Counter((each.digest, each.timestamp_ms) for each in self.known)
        oldest, top = min(self.known.timestamps), 0
        there = Counter[tuple[bytes, int]]()
        for record in seen:
            key, time = (record.digest, record.timestamp_ms), record.timestamp_ms
            there[key] += 1
            is_counted = key in read and (self.is_first or time > oldest)
            if there[key] > read[key] if is_counted else there[key] > 1 and time < top:
                return True
            top = max(top, time)
        return False

    def _is_hole(self, before: tuple[int, int], after: tuple[int, int], others: int) -> bool:
        """Whether this many records between the copies of two remembered ones, each (index, offset), can fill holes."""
        old = self.records[after[0]].offset - self.records[before[0]].offset
        return others <= old - (after[0] - before[0]) and after[1] - before[1] <= old

    def twins(self, walk: Walk, *, append_time: bool) -> tuple[int, bool]:
        """How ambiguous the place is at the end of a walk that agreed.

        Returns how many records lie between the oldest equal run in the ring and the last one, and whether a still
        older run may be equal, too. ``(0, False)``: nothing else can be meant. Where something lay between the records
        that agreed, every record equal to the last one counts, for there the walk forgives. A run that reaches the
        ring's start may extend before it, unless the ring begins with the log.
        """
        if self.known.alike(self.last.digest) == 1:
            return 0, False
        keys = [(record.digest, 0 if append_time else record.timestamp_ms) for record in self.records]
        demanded = walk.agreed if walk.unbroken and not self.holed else 1
        newest, back, open_ended = len(keys) - 1, 0, False
        for index in range(newest):
            if keys[index] != keys[newest]:
                continue
            length = min(demanded, index + 1)
            if keys[index + 1 - length : index + 1] == keys[newest + 1 - length :]:
                back = back or newest - index
                open_ended = open_ended or index < self.context
        return back, open_ended and self.known.first > 0


def _distinctive_context(ring: Fingerprints, context: int, *, timed: bool) -> int:
    """How many of the last records no other run of the ring ends with: at least ``context``, at most ``WIDEST``."""
    distinctive = context if timed else _newest_single(ring)
    if ring.alike(ring[-1].digest, first=len(ring) - context):
        backwards = [(record.digest, record.timestamp_ms if timed else 0) for record in reversed(tuple(ring))]
        distinctive = max(distinctive, max(_repeats(backwards), default=0) + 1)
    widened = max(context, min(distinctive, WIDEST, len(ring)))
    return context if widened == context else max(context, min(widened, ring.unbroken))


def _newest_single(ring: Fingerprints) -> int:
    """How many of the last records reach back to one whose content the ring has once; 0 where there is none."""
    digests = ring.digests
    counts = Counter(digests)
    return next((back for back, digest in enumerate(reversed(digests), 1) if counts[digest] == 1), 0)


def _repeats(row: Sequence[tuple[bytes, int]]) -> Iterator[int]:
    """For every later place of a row, how many items from there on are those at its start (the Z algorithm)."""
    lengths, left, right = [0] * len(row), 0, 0
    for at in range(1, len(row)):
        length = min(right - at, lengths[at - left]) if at < right else 0
        while at + length < len(row) and row[length] == row[at + length]:
            length += 1
        lengths[at] = length
        if at + length > right:
            left, right = at, at + length
        yield length
