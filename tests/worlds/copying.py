"""The standby's partition of a world: what the replicator copied, left out and sent again, and what others wrote."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.worlds.apart import DELETED, MARKERS, OTHERS_BEFORE, OTHERS_BEHIND, SENT_AGAIN
from tests.worlds.world import ABORTED, COMMITTED, GONE, MARKER, OPEN, Kept, Written
from tests.worlds.writing import Source


@dataclass(frozen=True)
class Copying:
    """How the replicator works, and what else befalls the standby."""

    passes: tuple[tuple[int, int], ...]
    """Old offsets from and to, of each time that it ran."""
    filtered: frozenset[int] = frozenset()
    copies_committed: bool = False
    append_time: bool = False
    compacted: bool = False
    lag_ms: int = 0
    skew_ms: int = 0
    """By how much the standby's clock is ahead, where it stamps."""
    markers: int | None = None
    """It writes in transactions of up to so many records."""
    foreign: frozenset[str] = frozenset()
    """Where other writers' records lie: ``before``, ``between``, ``after``."""
    alike: bool = False
    """Other writers write the payloads of the source."""
    open_tail: bool = False
    """A transaction on the standby has not ended."""
    deleted: float = 0.0
    """Share of the log that retention has deleted."""

    @classmethod
    def drawn(
        cls,
        chance: random.Random,
        source: Source,
        position: int,
        *,
        copies_committed: bool,
        append_time: bool,
        compacted: bool,
        plain: bool,
        apart: str,
    ) -> "Copying":
        """By chance."""
        if plain:
            lag = chance.choice((0, 0, source.end - position, chance.randint(0, 200)))
            end = max(source.begin + 1, source.end - lag, position - 200)
            again = ((max(source.begin, end - 30), end),) if apart == SENT_AGAIN else ()
            others = {OTHERS_BEFORE: "before", OTHERS_BEHIND: "after"}
            return cls(
                passes=((source.begin, end), *again),
                append_time=append_time,
                lag_ms=chance.choice((0, 20, 700)),
                markers=40 if apart == MARKERS else None,
                foreign=frozenset({others[apart]} if apart in others else ()),
                deleted=0.1 if apart == DELETED else 0.0,
            )
        most = source.stable if copies_committed else source.end
        return cls(
            passes=_passes(chance, source.begin, most, position),
            filtered=_filtered(chance, source, position),
            copies_committed=copies_committed,
            append_time=append_time,
            compacted=compacted,
            lag_ms=chance.choice((0, 20, 700, 60_000)),
            skew_ms=chance.choice((0, 0, 0, 1_000, -1_000, -9_000, -200_000, 200_000)),
            markers=chance.choice((None, None, None, None, 1, 5, 40)),
            foreign=frozenset(each for each in ("before", "between", "after") if chance.random() < 0.12),
            alike=chance.random() < 0.15,
            open_tail=chance.random() < 0.1,
            deleted=chance.choice((0.0,) * 8 + (0.1, 0.5, 0.9)),
        )


@dataclass
class Standby:
    """The log as it grows."""

    rows: tuple[Kept, ...] = ()
    begin: int = 0
    end: int = 0
    stable: int | None = None
    next_copy: int = 0
    now: int = 0
    stamps: bool = False
    _list: list[Kept] = field(default_factory=list)

    def append(self, time: int, payload: str, of: int | None = None, state: str = COMMITTED) -> None:
        """One row at the end; where the standby stamps, its clock does not go back."""
        if self.stamps and self._list:
            time = max(time, self._list[-1].time)
        self._list.append(Kept(self.end, time, payload, of, state))
        self.end += 1


def copied(chance: random.Random, source: Source, how: Copying) -> Standby:
    """The partition that such a replicator leaves behind."""
    log, others = Standby(stamps=how.append_time), _others(chance, how)
    log.now = max(source.appended.values(), default=0) + how.lag_ms
    _write_others(chance, log, how, others, "before", 0)
    moment, batch = 0, 0
    for record in _copies(source, how):
        moment = max(moment, source.appended[record.offset] + how.lag_ms)
        if chance.random() < 0.1:
            _write_others(chance, log, how, others, "between", moment)
        log.append(moment + how.skew_ms if how.append_time else record.time, record.payload, record.offset)
        batch += 1
        if how.markers is not None and batch >= chance.randint(1, how.markers):
            log.append(moment + (how.skew_ms if how.append_time else 0), "", state=MARKER)
            batch = 0
    _write_others(chance, log, how, others, "after", moment)
    rows = log._list
    if how.markers is not None and chance.random() < 0.2:
        rows = _aborted_once(chance, rows, stamps=how.append_time)
    if how.open_tail and rows:
        log.stable, rows = _opened(chance, rows)
    if how.compacted:
        rows = _compacted(chance, rows)
    log.end = rows[-1].offset + 1 if rows else 0
    log.begin = round(log.end * how.deleted)
    log.begin = log.begin if log.stable is None else min(log.begin, log.stable)
    log.rows, log.next_copy = tuple(rows), how.passes[-1][1]
    return log


def mirrored(chance: random.Random, source: Source, position: int) -> Standby:
    """A copy byte by byte, at the same offsets; its tail may be missing, and others may have written in its place."""
    cut = chance.choice((source.end, source.end, position, chance.randint(source.begin, source.end)))
    log = Standby(end=source.begin, next_copy=cut, now=max(source.appended.values(), default=0))
    rows = [Kept(each.offset, each.time, each.payload, each.offset, each.state) for each in source.records]
    rows = [row for row in rows if row.offset < cut]
    log.end = cut
    if chance.random() < 0.4:
        for number in range(chance.randint(1, 40)):
            rows.append(Kept(log.end, log.now + chance.choice((-500, 0, 1_000)), f"x{number}"))
            log.end += 1
        log.now += 1_000
    log.stable = next((row.offset for row in rows if row.state == OPEN), None)
    log.begin = source.begin if chance.random() < 0.85 else chance.randint(source.begin, log.end)
    log.begin = log.begin if log.stable is None else min(log.begin, log.stable)
    log.rows = tuple(rows)
    return log


def _copies(source: Source, how: Copying) -> Iterator[Written]:
    for begin, end in how.passes:
        for record in source.records:
            comes = begin <= record.offset < end and record.offset not in how.filtered
            if comes and not (how.copies_committed and record.state != COMMITTED):
                yield record


def _passes(chance: random.Random, begin: int, end: int, position: int) -> tuple[tuple[int, int], ...]:
    """Once through with some lag, or in pieces, each of which begins where the one before was or earlier."""
    lag = chance.choice((0, 0, 0, end - position, chance.randint(0, 5), chance.randint(0, 300)))
    last = max(begin, end - lag)
    start = begin if chance.random() < 0.9 else chance.randint(begin, last)
    if chance.random() < 0.6:
        return ((start, last),)
    found: list[tuple[int, int]] = []
    first = reached = start
    for _ in range(chance.randint(1, 4)):
        until = chance.randint(reached, last)
        if found and chance.random() < 0.25:
            until = chance.randint(start, last)  # stopped before it came as far as the one before
        found.append((start, until))
        reached = max(reached, until)
        start = until - chance.choice((0, 1, 5, 30, 400))
        start = max(first, start)
    if chance.random() < 0.6:
        found.append((start, last))
    return tuple(found)


def _filtered(chance: random.Random, source: Source, position: int) -> frozenset[int]:
    offsets = [each.offset for each in source.records]
    draw = chance.random()
    if draw < 0.7 or not offsets:
        return frozenset()
    if draw < 0.8:
        read = [offset for offset in offsets if offset < position]
        return frozenset(read[-chance.randint(1, 3) :])
    if draw < 0.9:
        share = chance.choice((0.02, 0.3))
        return frozenset(offset for offset in offsets if chance.random() < share)
    first = chance.choice(offsets)
    return frozenset(range(first, first + chance.randint(1, 40)))


def _others(chance: random.Random, how: Copying) -> Iterator[str]:
    number = 0
    while True:
        yield f"p{chance.randrange(2)}" if how.alike else f"x{number}"
        number += 1


def _write_others(
    chance: random.Random, log: Standby, how: Copying, names: Iterator[str], where: str, moment: int
) -> None:
    if where not in how.foreign:
        return
    for _ in range(chance.randint(1, 40 if where != "between" else 3)):
        time = moment + chance.choice((0, 1, 5)) + (how.skew_ms if how.append_time else 0)
        log.append(time if where != "after" else time + chance.choice((0, 1_000)), next(names))
    log.now = max(log.now, moment + 1_000)


def _aborted_once(chance: random.Random, rows: list[Kept], *, stamps: bool) -> list[Kept]:
    """One of the replicator's transactions was aborted, and what was in it came again right behind its marker."""
    ends = [index for index, row in enumerate(rows) if row.state == MARKER]
    index = chance.randrange(len(ends)) if ends else None
    if index is None:
        return rows
    first = ends[index - 1] + 1 if index else 0
    once = rows[first : ends[index] + 1]
    copies = [row.of for row in once if row.of is not None]
    if copies != sorted(set(copies)):
        return rows  # the replicator was restarted in between: no transaction outlives that
    failed = [row if row.state == MARKER else replace(row, state=ABORTED) for row in once]
    again = [replace(row, time=once[-1].time) for row in once] if stamps else once
    whole = [*rows[:first], *failed, *again, *rows[ends[index] + 1 :]]
    return [replace(row, offset=offset) for offset, row in enumerate(whole)]


def _opened(chance: random.Random, rows: list[Kept]) -> tuple[int | None, list[Kept]]:
    """The last rows, some of them or all, belong to a transaction that has not ended."""
    first = max(0, len(rows) - chance.randint(1, 20))
    tail = [
        row if row.state == MARKER or (row.of is None and chance.random() < 0.5) else replace(row, state=OPEN)
        for row in rows[first:]
    ]
    opened = next((row.offset for row in tail if row.state == OPEN), None)
    return opened, [*rows[:first], *tail]


def _compacted(chance: random.Random, rows: list[Kept]) -> list[Kept]:
    """Rows whose key came again later are removed, but for the last few; a key is a third of the payloads' names."""
    keys, active = chance.choice((2, 10, 100)), chance.randint(0, 10)
    newest = {_key(row, keys): row.offset for row in rows if row.state == COMMITTED}
    last = len(rows) - active
    return [
        replace(row, state=GONE)
        if index < last and row.state == COMMITTED and row.offset < newest[_key(row, keys)] and chance.random() < 0.8
        else row
        for index, row in enumerate(rows)
    ]


def _key(row: Kept, keys: int) -> int:
    return (row.offset if row.of is None else row.of) * 7 % keys
