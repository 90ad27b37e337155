"""Method ``exact``: the place right after the copy of the last consumed record, found by content.

The remembered fingerprints are looked for on the standby from ``lo`` on: the first offset whose time is at or after the
largest time among the last K. A record's own time never looks up a place after that record, so nothing before ``lo``
need be searched. Of several places the earliest is taken: a later one can skip records that a restarted replicator
had not sent the first time, and was late in trials; an earlier one only repeats what the replicator itself sent twice.

The search is fed as records come, and answers with a value each time: found, need more, or no place and why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from streaming.log import LogRecord
from streaming.resume.context import Fit, Ring

THIN = 4
"""A context cut off by the start of what was read counts only with so many records."""

TRUSTED_DIGESTS = 8
"""Where timestamps cannot help (LogAppendTime), a place is called exact only with so long a context."""


class Cause(StrEnum):
    """Why there is no place by content; ``streaming.resume.notes`` has the sentence of each."""

    NOT_REMEMBERED = "not remembered"
    LAGS = "standby lags"
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


@dataclass(frozen=True, slots=True)
class Found:
    """A place that skips no unread record."""

    offset: int
    exact: bool = True
    """Right after the first copy of the last consumed record, and nothing else could be meant."""
    missing: int = 0
    """Consumed records that the standby does not hold yet: they come later, and are read again then."""
    repeats: int | None = 0
    """At most so many records from ``offset`` on were already read; None when that cannot be told."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class NeedMore:
    """Undecided by the records seen so far."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Not found by content."""

    cause: Cause
    detail: str = ""


Outcome = Found | NeedMore | NoPlace
NEED_MORE = NeedMore()


class Search:
    """One partition's search. ``lo`` bounds candidates from below; ``end`` is the snapshot of the standby's end."""

    def __init__(self, ring: Ring, *, lo: int, end: int, compacted: bool = False) -> None:
        self.ring = ring
        self.lo = lo
        self.end = end
        self.records: list[LogRecord] = []
        self._compacted = compacted
        self._checked = 0
        self._rejected: int | None = None
        self._survivors: dict[int, int] = {}

    @property
    def saw_append_time(self) -> bool:
        """Whether the broker stamped the newest record seen."""
        return bool(self.records) and self.records[-1].append_time

    def feed(self, records: Sequence[LogRecord], next_offset: int) -> Outcome:
        """Take the next records of the standby, read up to ``next_offset``; at ``end`` the answer is final."""
        self.records.extend(records)
        outcome = self._survivor() if self._compacted else self._candidate()
        if isinstance(outcome, NeedMore) and next_offset >= self.end:
            return self._at_end()
        return outcome

    def _candidate(self) -> Outcome:
        """Judge the records not yet looked at that equal the last consumed one; the earliest that fits wins."""
        seen, digest, lo, newest = self.records, self.ring.last.digest, self.lo, len(self.ring.records) - 1
        first, self._checked = self._checked, len(seen)
        for at in range(first, len(seen)):
            record = seen[at]
            if record.digest != digest or record.offset < lo:
                continue
            agreed, fit = self.ring.fit(seen, at, newest)
            if fit is Fit.NO:
                if self._rejected is None and self.ring.is_same(record, newest):
                    self._rejected = record.offset + 1
                continue
            if self._is_vetoed(record):
                return self._first_seen(record.offset + 1)
            if fit is Fit.CUT and agreed < min(THIN, self.ring.context):
                return NoPlace(Cause.THIN, f"{agreed} of {self.ring.context} records")
            return self._accepted(record)
        return NEED_MORE

    def _is_vetoed(self, record: LogRecord) -> bool:
        """Whether an equal record that came earlier, without its context, may be the true copy: never step over it."""
        sure = self.ring.last_is_unique and not record.append_time
        return self._rejected is not None and (self.ring.holed or sure)

    def _accepted(self, record: LogRecord) -> Found:
        back, open_ended = self.ring.twins(append_time=record.append_time)
        short = record.append_time and self.ring.context < TRUSTED_DIGESTS and self.ring.records[0].offset > 0
        if not back and not short:
            return Found(record.offset + 1)
        repeats = None if open_ended or short else back
        return Found(
            record.offset + 1, exact=False, repeats=repeats, note="equal records in a row: the earliest place is taken"
        )

    def _first_seen(self, until: int | None) -> Found:
        assert self._rejected is not None
        return Found(
            self._rejected,
            exact=False,
            repeats=None if until is None else until - self._rejected,
            note="the last record read stands in other company on the standby: resumed after its first copy",
        )

    def _survivor(self) -> Outcome:
        """Compacted topic: gather which remembered records are still there; the answer comes at the end."""
        first, self._checked = self._checked, len(self.records)
        for record in self.records[first:]:
            if record.append_time:
                return NoPlace(Cause.COMPACTED_APPEND_TIME)
            index = self.ring.newest(record)
            if index >= 0 and record.offset >= self.lo:
                self._survivors.setdefault(index, record.offset + 1)
        return NEED_MORE

    def _at_end(self) -> Outcome:
        """The whole log from ``lo`` on was read without the last consumed record in its context."""
        if self._compacted:
            return self._newest_survivor()
        if self._rejected is not None:
            return self._first_seen(None)
        if self.records:
            at, newest = len(self.records) - 1, len(self.ring.records) - 1
            for index in self.ring.indices(self.records[at]):
                agreed, fit = self.ring.fit(self.records, at, index)
                if fit is Fit.FULL or (fit is Fit.CUT and agreed >= min(THIN, len(self.ring.records))):
                    missing = newest - index
                    return Found(self.end, exact=missing == 0, missing=missing)
        if self.lo >= self.end:
            return NoPlace(Cause.LAGS)
        return NoPlace(Cause.MISMATCH)

    def _newest_survivor(self) -> Outcome:
        if not self._survivors:
            return NoPlace(Cause.COMPACTED)
        newest = len(self.ring.records) - 1
        index = max(self._survivors)
        place = self._survivors[index]
        missing = newest - index if place >= self.end else 0
        note = "" if index == newest else f"compacted: the last {newest - index} records read are not there any more"
        return Found(place, exact=missing == 0, missing=missing, note=note)
