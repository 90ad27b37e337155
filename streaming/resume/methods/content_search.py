"""Method ``exact``: the place right after the copy of the last consumed record, found by content.

The remembered fingerprints are looked for on the standby from ``lo`` on: the first offset whose time is at or after the
largest time among the last K. A record's own time never looks up a place after that record, so nothing before ``lo``
need be searched. Of several places the earliest is taken. A later one can skip records that a restarted replicator
had not sent the first time, and was late in trials. An earlier one only repeats what the replicator itself sent twice.

The search is fed as records come, and answers with a value each time: found, need more, or no place and why.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from state.model.fingerprints import back
from streaming.cluster_log import OFFSET, LogRecord
from streaming.resume.methods.fingerprint_match import FingerprintMatcher, Fit, Walk

THIN = 4
"""A context cut off by the start of what was read counts only with this many records."""

TRUSTED = 8
"""A place is called exact only with so long a context where timestamps cannot help (LogAppendTime) or where records
that were never read may lie between (holes), else with ``THIN``.

So it is where records lay between those that agreed, and some of the remembered ones are alike. A shorter one will do
where the whole history of the partition is remembered and has no holes."""

FIRST_COPIES = 16
"""So many remembered records between the first one that retention has left and the place are taken for first copies."""

LOOK_AHEAD = 4_096
"""How many records after a place are looked at for an equal one, at most."""

AMBIGUOUS = "equal records: the earliest match is used"

MAY_LACK = (
    "some of the last records read are alike, and some records were or may be sent again: the last ones may be missing"
)

MOST_BOUND = 256
"""Where copies may be of any record that was read, the offsets that were read count if they are no more than this."""

MISSING_BOUND = "later records are an upper bound: not every offset between was read or held a record"
"""Of a batch that is longer than what is read before its end the first records are not remembered; offsets count."""


class Cause(StrEnum):
    """Why there is no place by content; ``streaming.resume.notes`` has the sentence of each."""

    NOT_REMEMBERED = "not remembered"
    LAGS = "standby lags"
    """Every record of the standby is older than all that is remembered."""
    UNACCOUNTED = "not accounted for"
    """The standby holds nothing as new as the last one read, and that alone does not show that it lags."""
    CONTRADICTED = "contradicted"
    """Answers of the standby do not agree, and the records that were read do not decide between them."""
    EMPTY = "standby empty"
    MISMATCH = "mismatch"
    """The standby holds records as new as the last one read, but not that record in its context."""
    THIN = "thin context"
    RETENTION = "retention"
    COMPACTED = "compacted away"
    COMPACTED_APPEND_TIME = "compacted with append time"
    SCAN_LIMIT = "scan limit"
    DEADLINE = "deadline"
    ERROR = "error"
    REPARTITIONED = "repartitioned"
    TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class Found:
    """A place that skips no unread record."""

    offset: int
    exact: bool = True
    """Right after the first copy of the last consumed record, and nothing else could be meant."""
    missing: int | None = 0
    """Consumed records that the standby does not hold yet, at most: they come later, and are read again then; None:
    some, but how many is unknown."""
    repeats: int | None = 0
    """At most this many records from ``offset`` on were already read; None when that is unknown."""
    expired: bool = False
    """Retention on the standby has deleted records, and unread ones may be among them."""
    at_edge: bool = False
    """Nothing shows that the records before the place are first copies. It lies so near to the first record that
    retention has left that first copies, with unread records behind them, may be among the deleted."""
    is_partial: bool = False
    """Records were read that the place does not go by: they are not remembered, or not on the standby."""
    again: int = 0
    """Consumed records that the standby holds, and that come once more: its replicator was stopped while it sent them
    again."""
    gone: int = 0
    """Offsets before the position that were read, and that the standby will never have."""
    note: str = ""


def is_retention(outcome: "Found | NoPlace") -> bool:
    """Whether the standby has deleted the records around the position: what is left begins behind it."""
    return isinstance(outcome, NoPlace) and outcome.cause is Cause.RETENTION


@dataclass(frozen=True, slots=True)
class NeedMore:
    """Undecided by the records seen so far."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Not found by content."""

    cause: Cause
    detail: str = ""
    expired: bool = False
    """Retention on the standby has deleted records, and unread ones may be among them."""


Outcome = Found | NeedMore | NoPlace
NEED_MORE = NeedMore()


class Search:
    """One partition's search. ``lo`` bounds candidates from below; ``end`` is the snapshot of the standby's end.

    ``cut``: the first record that is fed is the first that retention has left. ``is_older``: the standby holds no
    record as new as the newest of the last ones read. ``from_begin``: the first record that is fed is the log's first.
    """

    def __init__(
        self,
        ring: FingerprintMatcher,
        *,
        lo: int,
        end: int,
        compacted: bool = False,
        cut: bool = False,
        is_older: bool = False,
        from_begin: bool = False,
    ) -> None:
        self.matcher = ring
        self.is_by_end = False
        """Whether the end of the log gave the answer: then it holds only if the whole ring was looked for."""
        self._is_older = is_older
        self._from_begin = from_begin
        self.lo = lo
        self.end = end
        self.records: list[LogRecord] = []
        self.cut = cut
        self._compacted = compacted
        self._checked = 0
        self._rejected: int | None = None
        self._survivors: dict[int, int] = {}
        self._pending: tuple[Found, int] | None = None
        self._fitting: tuple[int, int] | None = None
        """Index of the record whose context agreed, and with how many remembered ones."""

    def feed(self, records: Sequence[LogRecord], next_offset: int) -> Outcome:
        """Take the next records of the standby, read up to ``next_offset``; at ``end`` the answer is final."""
        self.records.extend(records)
        if self._begins_unread() and self.lo - self.records[0].offset > LOOK_AHEAD:
            return self._expired()  # too far to read on for what else may be wrong
        is_end = next_offset >= self.end
        outcome: Outcome = NEED_MORE
        if self._pending is None:
            outcome = self._survivor() if self._compacted else self._candidate()
        if self._pending is not None:
            outcome = self._alone(*self._pending, is_end=is_end)
        elif isinstance(outcome, NeedMore) and is_end:
            self.is_by_end = not self._compacted
            outcome = self._at_end()
        if isinstance(outcome, Found):
            outcome = self._unless_expired(self._within_read(outcome))
        return self._with_the_rest(outcome) if isinstance(outcome, Found) else outcome

    @property
    def _floor(self) -> int:
        """From where on there may be a place: anywhere, if retention may have taken the record that gave ``lo``."""
        return 0 if self.cut else self.lo

    def _within_read(self, found: Found) -> Found:
        """Where equal records leave a place in doubt, none behind more of them than were read: one may be unread."""
        before = self.records[: bisect_left(self.records, found.offset, key=OFFSET)]
        more = None if found.exact or self.matcher.is_distinctive else self.matcher.surplus(before)
        if more is None:
            return found
        repeats = None if found.repeats is None else found.repeats + self._count(more.offset, found.offset)
        return replace(found, offset=more.offset, repeats=repeats, note=AMBIGUOUS)

    def _with_the_rest(self, found: Found) -> Found:
        """Where the last records read are alike, some of them may have been sent again, and the rest may come.

        A place that is in doubt needs no more than that. An exact one needs others that were sent again.
        """
        if self._fitting is None or found.missing is None:
            return found
        at, agreed = self._fitting
        missing = self.matcher.behind_first(agreed, append_time=self.records[at].append_time)
        if missing <= found.missing or (found.exact and not self.matcher.come_again(self.records[: at + 1])):
            return found
        return replace(found, exact=False, missing=missing, note=found.note or MAY_LACK)

    def _unless_expired(self, found: Found) -> Outcome:
        """No place in a copy sent again where retention has deleted the first one: unread records lie before it.

        The replicator keeps its order, so the first copy is still there if the first record that is left was read.
        Then it is remembered, or older than what is, with more records before the place than follow without a hole.
        A few older ones may be another writer's, where the deleted ones may have been all first copies.
        A remembered one may be a second copy too. That is so where more was deleted than the little that is left before
        the place. It is so where more was deleted than the old log had before that record, or all times are the same.
        """
        before = bisect_left(self.records, found.offset, key=OFFSET)
        if not self._begins_unknown:
            deleted = self.records[0].offset if self.cut and self.records else 0
            few = deleted > (0 if self._compacted else before) and before < FIRST_COPIES
            is_late = deleted > 0 and (deleted > self._oldest_offset(self.records[0]) or self.matcher.is_of_one_time)
            return replace(found, at_edge=few or is_late if found.exact else deleted > 0)
        if before <= self.matcher.unbroken or self._begins_unread():
            return self._expired()
        older = next((i for i, each in enumerate(self.records) if self.matcher.newest(each) >= 0), 0)
        few = older < FIRST_COPIES and self.records[0].offset >= before - older
        return replace(found, at_edge=few or not found.exact)

    def _oldest_offset(self, record: LogRecord) -> int:
        """The first offset of the old log that held a remembered record equal to this one."""
        return self.matcher.records[self.matcher.indices(record)[-1]].offset

    def _begins_unread(self) -> bool:
        """Whether the first record that retention has left may be unread."""
        if not self._begins_unknown:
            return False
        first = self.records[0]
        return self.matcher.may_be_unread(first.timestamp_ms, append_time=first.append_time)

    @property
    def _begins_unknown(self) -> bool:
        """Whether the first record that retention has left is none of those remembered."""
        return self.cut and bool(self.records) and self.matcher.newest(self.records[0]) < 0

    def _expired(self) -> NoPlace:
        return NoPlace(Cause.RETENTION, f"{self.records[0].offset} is the first record left, and was not read")

    def _alone(self, found: Found, at: int, *, is_end: bool) -> Outcome:
        """A hole of the old offsets may have held an equal record that was never read, and this may be its copy.

        An aborted transaction that was sent again with the same times looks so. The true copy then follows within as
        many records as the holes are wide; if an equal one does, the place is safe, but not exact.
        """
        last = at + 1 + min(self.matcher.hidden, LOOK_AHEAD)
        if len(self.records) < last and not is_end:
            return NEED_MORE
        newest = self.matcher.size - 1
        equal = [record.offset for record in self.records[at + 1 : last] if self.matcher.is_same(record, newest)]
        if not equal or found.repeats is None:
            return found
        repeats = max(found.repeats, self._count(found.offset, equal[-1] + 1))
        return replace(found, exact=False, repeats=repeats, note=AMBIGUOUS)

    def _candidate(self) -> Outcome:
        """Judge the records not yet looked at that equal the last consumed one; the earliest that fits wins."""
        seen, digest, lo, newest = self.records, self.matcher.last.digest, self._floor, self.matcher.size - 1
        first, self._checked = self._checked, len(seen)
        for at in range(first, len(seen)):
            record = seen[at]
            if record.digest != digest or record.offset < lo:
                continue
            walk = self.matcher.fit(seen, at, newest)
            if walk.fit is Fit.NO or self._is_beset(at, walk):
                if self._rejected is None and self.matcher.is_same(record, newest):
                    self._rejected = record.offset + 1
                continue
            self._fitting = at, walk.agreed
            if self._is_vetoed(record, walk):
                return self._first_seen(self._accepted(record, walk))
            is_thin = walk.agreed < min(THIN, self.matcher.context) and walk.fit is Fit.CUT
            if is_thin or (self.cut and at + 1 == walk.agreed < TRUSTED and not self._is_distinct(record)):
                return NoPlace(Cause.THIN, f"{walk.agreed} of {self.matcher.context} records")
            found = self._before_young(self._accepted(record, walk), walk)
            if self.matcher.hidden:
                self._pending = found, at
                return NEED_MORE
            return found
        return NEED_MORE

    def _before_young(self, found: Found, walk: Walk) -> Found:
        """Before what fills a hole and is as young as the newest record read: that may be unread.

        The last record read was left out then, and an unread one that equals it lies here. So may it be behind what
        seems to be sent again, where the last record was read several times and not all that was read can be counted.
        """
        if walk.again is not None and not self.matcher.is_distinctive:
            found = replace(
                found, exact=False, note=AMBIGUOUS
            )  # then none is skipped that is there more often than read
        is_counted = self._from_begin and self.matcher.is_whole
        is_repeated = not (is_counted or self.matcher.last_is_unique(append_time=False))
        first = min((at for at in (walk.young, walk.again if is_repeated else None) if at is not None), default=None)
        if first is None:
            return found
        repeats = None if found.repeats is None else found.repeats + self._count(first, found.offset)
        return replace(found, offset=first, exact=False, repeats=repeats, note=AMBIGUOUS)

    def _is_beset(self, at: int, walk: Walk) -> bool:
        """Whether all that is remembered agreed, and a record as young as an unread one lies before the place.

        Few records agree by chance; of what lay before all of them nothing is known, but that it is older. What fills a
        hole of the old offsets is as old as the last of them.
        """
        if walk.agreed < self.matcher.size or self.records[at].append_time:
            return False
        if walk.agreed < TRUSTED and any(
            self.matcher.newest(each) >= 0 for each in self.records[: at + 1 - walk.agreed]
        ):
            return True
        return self._is_behind_young_ones(at, self.matcher.hidden)

    def _is_behind_young_ones(self, at: int, room: int) -> bool:
        """Whether more records as young as unread ones lie before a record than there is ``room`` for in the holes."""
        youngest = self.matcher.top_ms
        here = self.records[bisect_left(self.records, self.lo, key=OFFSET) : at]
        times = [each.timestamp_ms for each in here if each.timestamp_ms >= youngest and self.matcher.newest(each) < 0]
        return max(times, default=youngest) > youngest or len(times) > room

    def _is_vetoed(self, record: LogRecord, walk: Walk) -> bool:
        """Whether an equal record that came earlier, without its context, may be the true copy: never step over it."""
        if self._rejected is None:
            return False
        stamped = record.append_time
        few = stamped and (walk.agreed < TRUSTED or not self.matcher.is_distinct(walk.agreed))
        if few or self.matcher.holed or self.matcher.last_is_unique(append_time=stamped):
            return True
        return not stamped and not self._is_older_twin(self._rejected - 1)

    def _is_distinct(self, record: LogRecord) -> bool:
        """Whether the last record read is unlike all that are remembered, so that hardly an unread one equals it."""
        return self.matcher.size > 1 and self.matcher.last_is_unique(append_time=record.append_time)

    def _accepted(self, record: LogRecord, walk: Walk) -> Found:
        back, open_ended = self.matcher.twins(walk, append_time=record.append_time)
        is_doubtful = self.matcher.holed or not (walk.unbroken or self.matcher.is_distinctive)
        demanded = TRUSTED if record.append_time or is_doubtful else THIN
        short = walk.agreed < demanded or (record.append_time and not self.matcher.is_distinct(walk.agreed))
        short = short and (record.append_time or not self.matcher.is_whole)
        if not back and not short:
            return Found(record.offset + 1, missing=self._missing_behind(self.matcher.size - 1, walk.agreed))
        repeats = None if open_ended or short or self.matcher.holed else back
        missing = self._missing_of_twin(record)
        if short and not self._is_no_older(record, walk.agreed):
            missing = self._all_read()
        elif short and record.append_time:
            missing = self.matcher.size  # by content alone it may be another writer's
        return Found(record.offset + 1, exact=False, missing=missing, repeats=repeats, note=AMBIGUOUS)

    def _missing_of_twin(self, record: LogRecord) -> int | None:
        """Offsets behind the oldest remembered record that this one equals; None where it may equal a still older one.

        The earliest match may be the copy of that one, and then the records after it have not come yet.
        """
        oldest = self.matcher.indices(record)[-1]
        is_only = oldest == self.matcher.size - 1
        if not self.matcher.is_whole and (record.append_time or not is_only):
            return None
        at = bisect_left(self.records, record.offset, key=OFFSET)
        agreed = self.matcher.fit(self.records, at, oldest).agreed
        return self._missing_behind(oldest, agreed) if self._is_no_older(record, agreed) else self._all_read()

    def _missing_behind(self, index: int, agreed: int) -> int:
        """Offsets that were read behind the record of which one that equals ``index`` is the copy, at most.

        Where remembered records are few or alike, it may be the copy of one in a hole: that was read, too, and is not
        remembered. Where it lags and fewer than ``THIN`` agree, they may be another writer's: nothing may be there yet.
        """
        missing = self.matcher.last.offset - self.matcher.records[index].offset
        if self.matcher.is_distinctive:
            return missing
        if missing and agreed < THIN and self.matcher.is_whole:
            return self.matcher.size
        return missing + self.matcher.between(index, agreed + 1)

    def _all_read(self) -> int | None:
        """Offsets that can have been read at all, where no record shows how far the copies reach; None: too many."""
        count = self.matcher.most_read
        return count if count <= MOST_BOUND else None

    def _first_seen(self, fitting: Found | None) -> Found:
        """Right after the first equal record; ``fitting`` is the later place whose context agreed."""
        assert self._rejected is not None
        repeats, at = None, bisect_left(self.records, self._rejected - 1, key=OFFSET)
        missing = self._missing_of_twin(self.records[at])
        if fitting is not None and fitting.repeats is not None:
            repeats, missing = self._count(self._rejected, fitting.offset) + fitting.repeats, fitting.missing
        return Found(
            self._rejected,
            exact=False,
            missing=missing,
            repeats=repeats,
            note="the last record read has other records around it on the standby: resumed after its first copy",
        )

    def _count(self, first: int, last: int) -> int:
        """How many records lie in ``[first, last)``: markers have offsets, too, and are no records."""
        return bisect_left(self.records, last, key=OFFSET) - bisect_left(self.records, first, key=OFFSET)

    def _survivor(self) -> Outcome:
        """Compacted topic: gather which remembered records are still there; the answer comes at the end."""
        first, self._checked = self._checked, len(self.records)
        for record in self.records[first:]:
            if record.append_time:
                return NoPlace(Cause.COMPACTED_APPEND_TIME)
            index = self.matcher.newest(record)
            if index >= 0 and record.offset >= self._floor:
                self._survivors.setdefault(index, record.offset + 1)
        return NEED_MORE

    def _at_end(self) -> Outcome:
        """The whole log from ``lo`` on was read without the last consumed record in its context."""
        if self._compacted:
            return self._newest_survivor()
        if self._rejected is not None:
            if self._is_older_twin(self._rejected - 1):
                return self._first_seen(None)
            return NoPlace(Cause.MISMATCH, f"an equal record at {self._rejected - 1} has other records around it")
        return self._without_the_last()

    def _without_the_last(self) -> Outcome:
        """The standby holds no record that equals the last one read: it lags, or its replicator left that record out.

        The replicator keeps its order. So every unread record lies behind the first copy of the newest remembered
        record that is there, and the place is right after that. It is the log's end, and the standby lags, only if
        every record from there on is remembered as well, and unlike any other one: what was sent again. Any other
        record may be unread, for a filter may have left out the records read last. Then a few of the oldest remembered
        records are not enough: another partitioner may have put all the others elsewhere.
        """
        indices = [self.matcher.newest(record) for record in self.records]
        best = max(indices, default=-1)
        if best < 0:
            return self._without_any()
        at = indices.index(best)
        homes = [index for index in self.matcher.indices(self.records[at]) if self._is_at_home(at, index)]
        if not homes:
            return NoPlace(Cause.UNACCOUNTED if self._is_older else Cause.MISMATCH)
        home, newest = homes[-1], self.matcher.size - 1
        agreed = self.matcher.fit(self.records, at, home).agreed
        again = self.records[at + 1 :]
        lags = not again or (self.matcher.is_distinctive and all(self.matcher.is_only(record) for record in again))
        if agreed < THIN and self.matcher.is_long and not lags:
            return NoPlace(Cause.UNACCOUNTED if self._is_older else Cause.MISMATCH)
        missing = self._missing_behind(home, agreed)
        bound = MISSING_BOUND if missing > newest - home else ""
        is_known = self._is_no_older(self.records[at], agreed)
        came = next((i for i in reversed(range(len(indices))) if indices[i] >= 0), at)
        oldest = self.matcher.indices(self.records[came])[-1]
        more = max(0, self.matcher.records[home].offset - self.matcher.records[oldest].offset)
        if lags:
            known = missing if is_known else self._all_read()
            return Found(self.end, exact=known == 0, missing=known, again=more, note=bound)
        note = f"the standby does not hold the last {newest - home} records read, and other records follow them"
        unseen = min(missing - (newest - home), len(again))
        return Found(
            self.records[at].offset + 1,
            exact=False,
            is_partial=True,
            missing=missing if is_known else self._all_read(),
            again=more,
            repeats=unseen if is_known else None,
            note=note,
        )

    def _without_any(self) -> NoPlace:
        if self.lo < self.end:
            return NoPlace(Cause.UNACCOUNTED if self._is_older else Cause.MISMATCH)
        return self._lagging()

    def _lagging(self) -> NoPlace:
        """Nothing is as new as what was read: it has not come yet, unless all that is left came after it."""
        if self._begins_unread():
            return self._expired()
        if self._begins_unknown:
            return NoPlace(
                Cause.THIN,
                "no record that is left was read, and only timestamps say that the last one read was older",
                expired=True,
            )
        return NoPlace(Cause.LAGS if self.records and self.matcher.is_long else Cause.UNACCOUNTED)

    def _is_older_twin(self, offset: int) -> bool:
        """Whether a record that equals the last one read is the copy of an older equal one, in that one's company."""
        at = bisect_left(self.records, offset, key=OFFSET)
        return any(self._is_at_home(at, index) for index in self.matcher.indices(self.records[at])[1:])

    def _is_no_older(self, record: LogRecord, agreed: int) -> bool:
        """Whether a record with so much company is no copy of one that was read before all that is remembered.

        So it is where all is remembered, or where no two of these are alike in content and time. Then some of them lie
        before the record that it equals, whose content is unlike theirs. It is so, too, where the record is younger
        than the oldest of them by more than times go back. That takes enough of them to show it, or ``THIN`` in its
        company.
        """
        if self.matcher.is_whole or agreed >= TRUSTED:
            return True
        has_company = agreed >= min(THIN, self.matcher.size) > 1
        is_late = self.matcher.newest(record) >= THIN and self.matcher.known.alike(record.digest) == 1
        if self.matcher.is_distinctive and (self.matcher.is_first or has_company or is_late):
            return True
        times = self.matcher.known.timestamps
        shows_order = self.matcher.size >= TRUSTED or self.matcher.is_first or agreed >= THIN
        shows_order = shows_order and not record.append_time
        return shows_order and record.timestamp_ms > min(times) + back(times)

    def _is_at_home(self, at: int, index: int) -> bool:
        walk = self.matcher.fit(self.records, at, index)
        if walk.agreed < TRUSTED:
            is_alone = walk.agreed < THIN and not (self.matcher.is_whole and at + 1 == walk.agreed)
            is_sole = self.matcher.is_distinctive and self.matcher.known.alike(self.records[at].digest) == 1
            if is_alone and not is_sole:
                return False  # an unread record may equal it, and nothing remembered lies before it
            if not (walk.unbroken or self.matcher.is_distinctive):
                return False  # so may this one, and what fills a hole before it may be unread as well
            if self.records[at].append_time or (self.cut and at + 1 == walk.agreed):
                return False
            room = self.matcher.records[index].offset - self.matcher.records[0].offset - index
            if self._is_behind_young_ones(at, room):
                return False
        return walk.fit is Fit.FULL or (walk.fit is Fit.CUT and walk.agreed >= min(THIN, self.matcher.size))

    def _newest_survivor(self) -> Outcome:
        if not self._survivors:
            return NoPlace(Cause.COMPACTED) if self.lo < self.end else self._lagging()
        newest = self.matcher.size - 1
        index = max(self._survivors)
        place = self._survivors[index]
        first = 0 if self._from_begin else self.lo
        here = [record for record in self.records if first <= record.offset < place]
        excess = self._excess(here)
        if excess is not None:
            text = f"records that equal the one at {excess.offset} are there more often than they were read"
            return NoPlace(Cause.MISMATCH, text)
        stranger = self.matcher.stranger(here, from_begin=self._from_begin)
        if stranger is not None:
            return NoPlace(
                Cause.MISMATCH, f"{stranger.offset} is among the records read or before them, but is not one of them"
            )
        at = bisect_left(self.records, place - 1, key=OFFSET)
        oldest = self.matcher.indices(self.records[at])[-1]
        missing = self._missing_behind(oldest, 1 if len(self._survivors) < THIN else oldest + 1)
        is_known = self._is_no_older(self.records[at], self.matcher.fit(self.records, at, index).agreed)
        note = (
            "" if index == newest else f"compacted: the last {newest - index} records read are gone, or not there yet"
        )
        behind = len(self.records) - at - 1
        unseen = min(missing - (newest - oldest), behind)  # what was read and is not remembered may lie there
        return Found(
            place,
            exact=missing == 0 and is_known,
            is_partial=missing > 0,
            missing=missing if is_known else self._all_read(),
            repeats=unseen if is_known else None,
            note=note,
        )

    def _excess(self, here: Sequence[LogRecord]) -> LogRecord | None:
        """The first of these that is on a compacted standby more often than it was read: it may be an unread one.

        Its first copy may be gone. Where enough is remembered, and no two are alike, it was sent again.
        """
        if self.matcher.is_distinctive:
            return None
        counts = Counter((each.digest, each.timestamp_ms) for each in self.records)
        known = (each for each in here if self.matcher.newest(each) >= 0)
        return next(
            (each for each in known if counts[each.digest, each.timestamp_ms] > len(self.matcher.indices(each))), None
        )
