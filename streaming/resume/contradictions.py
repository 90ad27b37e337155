"""What the answers of one partition say against each other.

A cluster answers several questions about one log. These are where it begins and ends, which record is the first of a
time, which time is the largest, and what the records are. Each answer can be wrong: a broker has answered look-ups by
time many records too late, and a leader that was just elected has returned an old end. No answer is believed against
another one. All of them are one snapshot, and this module returns what does not agree, with a sentence.

An answer in doubt is a hint, and nothing more. Whether it is too late shows in the records before it: one of them that
is as new as the time in question contradicts it. So a few records before each answer are read.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from streaming.cluster_log import OFFSET, LogRecord, OffsetAnswer, Spec

NEWEST = int(Spec.MAX_TIMESTAMP)
BEGIN = int(Spec.EARLIEST)
END = int(Spec.LATEST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """One answer, and what speaks against it."""

    about: int
    """The time in question in milliseconds, or a ``Spec``."""
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What one partition answered within one look-up; the ends were read before the times."""

    begin: int
    end: int
    """The high watermark."""
    visible: int | None = None
    """The last stable offset; None when it was not read."""
    newest: OffsetAnswer | None = None
    """The record with the largest timestamp; None when that is not known."""
    times: Mapping[int, OffsetAnswer] = field(default_factory=dict)
    """Answers to times in milliseconds; those with an error are left out."""
    records: Sequence[LogRecord] = ()
    """Records that were read, in offset order."""
    read_from: int = 0
    read_to: int = 0
    """Every record in ``[read_from, read_to)`` is among ``records``."""

    @property
    def newest_ms(self) -> int | None:
        """The largest timestamp as it was answered; None unknown."""
        known = self.newest is not None and self.newest.error is None and (self.newest.timestamp_ms or 0) >= 0
        return self.newest.timestamp_ms if known and self.newest is not None else None


def contradictions(known: Snapshot) -> tuple[Contradiction, ...]:
    """All that does not agree, each with the answer that is in doubt."""
    found = [*_of_bounds(known), *_of_newest(known)]
    for time in sorted(known.times):
        found += (Contradiction(about=time, text=text) for text in _of_time(known, time, known.times[time]))
    return tuple(found)


def doubted(known: Snapshot, about: int) -> str:
    """What speaks against one answer, in a sentence; empty if nothing does."""
    return next((each.text for each in contradictions(known) if each.about == about), "")


def _of_bounds(known: Snapshot) -> Iterator[Contradiction]:
    if known.begin > known.end:
        yield Contradiction(about=BEGIN, text=f"the log begins at {known.begin}, after its end at {known.end}")
    if known.visible is not None and known.visible > known.end:
        text = f"the last stable offset is {known.visible}, after the end at {known.end}"
        yield Contradiction(about=END, text=text)
    if known.visible is not None and known.visible < known.begin <= known.end:
        text = f"the last stable offset is {known.visible}, before the log's begin at {known.begin}"
        yield Contradiction(about=END, text=text)
    if known.records and known.records[0].offset < known.begin:
        text = f"the log begins at {known.begin}, but the record at {known.records[0].offset} was read"
        yield Contradiction(about=BEGIN, text=text)


def _of_newest(known: Snapshot) -> Iterator[Contradiction]:
    newest, looked = known.newest_ms, known.newest
    if newest is None or looked is None:
        return
    read = max(known.records, key=lambda record: record.timestamp_ms, default=None)
    if read is not None and read.timestamp_ms > newest and read.offset < known.end:
        text = f"the largest timestamp is {newest}, but the record at {read.offset} has {read.timestamp_ms}"
        yield Contradiction(about=NEWEST, text=text)
    requested = (each for each in known.times.values() if _is_within(known, each))
    later = next((each for each in requested if (each.timestamp_ms or 0) > newest), None)
    if later is not None:
        text = f"the largest timestamp is {newest}, but the record at {later.offset} has {later.timestamp_ms}"
        yield Contradiction(about=NEWEST, text=text)
    odd = _odd(known, looked)
    if odd:
        yield Contradiction(about=NEWEST, text=f"the largest timestamp is that of offset {looked.offset}, but {odd}")


def _of_time(known: Snapshot, time: int, looked: OffsetAnswer) -> Iterator[str]:
    newest = known.newest_ms
    if looked.offset is None:
        if newest is not None and newest >= time and _is_within(known, known.newest):
            yield f"no record is as new as {time}, but the largest timestamp is {newest}"
    else:
        if looked.offset < known.begin:
            yield f"the first record of {time} is at {looked.offset}, before the log's begin at {known.begin}"
        if looked.timestamp_ms is not None and looked.timestamp_ms < time:
            yield f"the first record of {time} is at {looked.offset}, but its own time is {looked.timestamp_ms}"
        if odd := _odd(known, looked):
            yield f"the first record of {time} is at {looked.offset}, but {odd}"
    last = known.end if looked.offset is None else looked.offset
    before = known.records[: bisect_left(known.records, last, key=OFFSET)]
    early = next((record for record in before if record.timestamp_ms >= time), None)
    if early is not None:
        what = "no record" if looked.offset is None else f"no record before {looked.offset}"
        yield f"{what} is as new as {time}, but the record at {early.offset} has {early.timestamp_ms}"
    for other, answer in known.times.items():
        if other > time and answer.offset is not None and answer.offset < last and (answer.timestamp_ms or 0) >= time:
            yield f"the first record of {time} is after the first one of {other}, which is at {answer.offset}"


def _is_within(known: Snapshot, looked: OffsetAnswer | None) -> bool:
    """Whether an answer names a record before the end of the snapshot; any other one came after that was looked up."""
    return looked is not None and looked.offset is not None and looked.offset < known.end


def _odd(known: Snapshot, looked: OffsetAnswer) -> str:
    """What was read at the answer's offset against what it says; empty if that agrees or was not read.

    The marker of a transaction has an offset and a time, and is never read: no record there contradicts nothing.
    """
    at = looked.offset
    if at is None or not known.read_from <= at < known.read_to:
        return ""
    index = bisect_left(known.records, at, key=OFFSET)
    there = known.records[index] if index < len(known.records) and known.records[index].offset == at else None
    if there is not None and looked.timestamp_ms is not None and there.timestamp_ms != looked.timestamp_ms:
        return f"the record there has {there.timestamp_ms}, not {looked.timestamp_ms}"
    return ""
