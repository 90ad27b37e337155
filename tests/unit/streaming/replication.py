"""Random worlds: an old log, a replicator that restarts and sends again, and a reader somewhere in the middle.

The standby may have compacted what came, or let the first of it expire, and the replicator may have changed the order.
Another kind of world has several partitions, and a replicator that deals the records to them by another hash.

Each record carries a serial number that the resolver never sees; with it the harness shows what was skipped and what
was read twice. The draws come from one seeded ``random.Random``, so a failing world is named by its seed.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from state.model.entities import Fingerprint
from state.model.fingerprints import Fingerprints
from state.settings.keys import MethodName
from streaming.resume.model import Rules, Target, Want
from tests.unit.streaming.standby import T0, Slot, Standby, digest, rules, standby, want


@dataclass(frozen=True, order=True)
class OldRecord:
    offset: int
    time: int
    value: str
    serial: int
    aborted: bool


@dataclass(frozen=True)
class World:
    """One draw: the standby, where each serial lies on it, and the position that is looked for."""

    log: Standby
    here: tuple[tuple[int, int], ...]
    """(standby offset, serial) of every copy that is left."""
    came: tuple[tuple[int, int], ...]
    """The same of every copy that ever came."""
    want: Want
    rules: Rules
    read: frozenset[int]
    remembered: frozenset[int]
    unread: frozenset[int]
    last: int
    resent: bool
    in_order: bool
    """No record is older than one before it."""
    distinctive: bool
    """No two of the remembered records are alike."""
    shows_order: bool
    """The replicator kept the order, or sent the remembered records themselves out of their turn: else nothing shows an
    unread one among them from an aborted one that filled the hole there."""
    lookalikes: bool
    """Equal records that content cannot distinguish: then only safety is owed, not exactness."""

    def skipped(self, target: Target) -> set[int]:
        """Unread serials that the standby holds, but not at or after the place."""
        assert target.target_offset is not None
        after = {serial for offset, serial in self.here if offset >= target.target_offset}
        return {serial for _, serial in self.here} & set(self.unread) - after

    def repeated(self, target: Target) -> int:
        """Copies of read records at or after the place."""
        assert target.target_offset is not None
        return sum(serial in self.read for offset, serial in self.here if offset >= target.target_offset)

    def shown(self, target: Target) -> bool:
        """Whether content or times show that a record was read already, of those at or after the place."""
        assert target.target_offset is not None
        if not self.distinctive:
            return False
        after = {serial for offset, serial in self.here if offset >= target.target_offset}
        return bool(after & self.remembered) or (self.in_order and bool(after & self.read))

    def repeated_first_copies(self, target: Target) -> int:
        """Read records whose first copy lies at or after the place: those that the replicator did not send again."""
        assert target.target_offset is not None
        before = {serial for offset, serial in self.came if offset < target.target_offset}
        return len({serial for _, serial in self.here} & self.read - before)


ENOUGH = 16
"""So many remembered records show another order, or another hash; fewer may look right by chance."""


@dataclass(frozen=True)
class Fate:
    """What else befell the copies."""

    compacted: bool = False
    expired: bool = False
    shuffled: bool = False

    @property
    def is_plain(self) -> bool:
        return self == Fate()


FATES = (
    *[Fate()] * 6,
    Fate(compacted=True),
    Fate(expired=True),
    Fate(compacted=True, expired=True),
    Fate(shuffled=True),
)


def draw(seed: int) -> World | None:
    """A world, or None where the draw holds nothing to look for."""
    rnd = random.Random(seed)
    fate = rnd.choice(FATES)
    old = _old_log(rnd, fate)
    mirrors_aborted = rnd.random() < 0.7
    sent = _replicated(rnd, [r for r in old if mirrors_aborted or not r.aborted])
    seen = [r for r in old if not r.aborted]
    if not seen or not sent:
        return None
    cut = rnd.randint(1, len(seen))
    if fate.shuffled and cut < ENOUGH:
        return None
    stamped = rnd.random() < 0.25 and not fate.expired
    came = _laid_out(rnd, _shuffled(rnd, sent) if fate.shuffled else sent)
    here = _compacted(rnd, came) if fate.compacted else came
    begin = here[rnd.randrange(len(here))][0] if fate.expired else 0
    here = [(offset, r) for offset, r in here if offset >= begin]
    records = [(offset, T0 + 5000 + offset if stamped else r.time, r.value) for offset, r in here]
    position = _position(
        rnd, old, seen, cut, remembered=rnd.choice([64, 256]) if fate.is_plain else 256, untracked=not fate.shuffled
    )
    return World(
        log=standby(
            Slot(records, begin=begin, append_time=stamped, end=records[-1][0] + rnd.choice([1, 1, 2])),
            per_fetch=rnd.choice([1, 3, 50, 1000]),
            knows_type=rnd.random() < 0.5,
            cleanup="compact,delete" if fate.compacted else "delete",
        ),
        here=tuple((offset, r.serial) for offset, r in here),
        came=tuple((offset, r.serial) for offset, r in came),
        want=position,
        rules=rules(
            *rnd.choice([(MethodName.EXACT, MethodName.TIMESTAMP), (MethodName.TIMESTAMP,)]),
            context=rnd.choice([1, 8, 16, 32] if fate.is_plain else [ENOUGH] if fate.shuffled else [8, 16, 32]),
            buffer_ms=rnd.choice([0, 7, 10_000]) if fate.is_plain and not stamped else 10_000,
        ),
        read=frozenset(r.serial for r in seen[:cut]),
        remembered=frozenset(r.serial for r in seen[:cut] if r.offset in {each.offset for each in position.ring}),
        unread=frozenset(r.serial for r in seen[cut:]),
        last=seen[cut - 1].serial,
        resent=len({r.serial for r in sent}) < len(sent),
        distinctive=len({_identity(r, stamped=stamped) for r in position.ring}) == len(position.ring),
        in_order=not stamped and all(before.time <= after.time for before, after in pairwise(old)),
        shows_order=not fate.shuffled or not _is_in_turn(came, {each.offset for each in position.ring}),
        lookalikes=_has_lookalikes(sent, seen, seen[cut - 1], stamped=stamped),
    )


def _is_in_turn(came: Sequence[tuple[int, OldRecord]], offsets: Collection[int]) -> bool:
    """Whether the first copies of the records at these old offsets came in the order of their offsets."""
    first = list(dict.fromkeys(record.offset for _, record in came if record.offset in offsets))
    return first == sorted(first)


def _identity(record: Fingerprint, *, stamped: bool) -> tuple[bytes, int]:
    return record.digest, 0 if stamped else record.timestamp_ms


def _has_lookalikes(sent: Sequence[OldRecord], seen: Sequence[OldRecord], last: OldRecord, *, stamped: bool) -> bool:
    """Replicated aborted records that equal read ones; or a re-send next to a record that equals the last one read."""

    def identity(record: OldRecord) -> tuple[str, int]:
        return record.value, 0 if stamped else record.time

    aborted = {identity(record) for record in sent if record.aborted}
    again = len({record.serial for record in sent}) < len(sent)
    twins = sum(identity(record) == identity(last) for record in seen) > 1
    return bool(aborted & {identity(record) for record in seen}) or (again and twins)


def _old_log(rnd: random.Random, fate: Fate) -> list[OldRecord]:
    alphabet, same_ms, jitter = rnd.choice([1, 2, 3, 10, 10**6]), rnd.choice([1, 1, 3, 30]), rnd.choice([0, 0, 20])
    jitter = 0 if fate.compacted else jitter  # older unread records cannot be distinguished from read ones there
    keys = rnd.choice([4, 40, 10**6])
    aborts, markers = rnd.choice([(0.0, 0.0), (0.1, 0.05)])
    records, offset = [], rnd.choice([0, 0, 100]) - 1
    for serial in range(rnd.randint(1, 150)):
        offset += 1
        time = T0 + serial // same_ms + rnd.randint(-jitter, jitter)
        value = str(rnd.randrange(alphabet)) if fate.is_plain else f"{rnd.randrange(keys)} {serial}"
        records.append(OldRecord(offset, time, value, serial, rnd.random() < aborts))
        offset += rnd.random() < markers
    return records


def _replicated(rnd: random.Random, source: Sequence[OldRecord]) -> list[OldRecord]:
    """What the replicator appended: in order, going back now and then, and at the end perhaps a re-send cut short."""
    if not source:
        return []
    sent: list[OldRecord] = []
    at = reached = 0
    goal, restarts = rnd.randint(1, len(source)), rnd.choice([0.0, 0.4])
    while reached < goal:
        step = rnd.randint(1, 40)
        sent += source[at : min(at + step, goal)]
        at = min(at + step, goal)
        reached = max(reached, at)
        if rnd.random() < restarts:
            at = rnd.randint(max(0, reached - 30), at)
    if restarts and rnd.random() < 0.5:
        first = rnd.randint(0, reached)
        sent += source[first : rnd.randint(first, reached)]
    return sent


def _laid_out(rnd: random.Random, sent: Sequence[OldRecord]) -> list[tuple[int, OldRecord]]:
    offset, holes, laid = rnd.randint(0, 50), rnd.choice([0.0, 0.0, 0.05]), []
    for record in sent:
        laid.append((offset, record))
        offset += 1 + (rnd.random() < holes)
    return laid


def _shuffled(rnd: random.Random, sent: Sequence[OldRecord]) -> list[OldRecord]:
    """Each record comes at most so many places later than its turn."""
    most = rnd.choice([2, 6])
    return [record for _, record in sorted((turn + rnd.uniform(0, most), record) for turn, record in enumerate(sent))]


def _compacted(rnd: random.Random, came: Sequence[tuple[int, OldRecord]]) -> list[tuple[int, OldRecord]]:
    """The newest of each key up to where the cleaner was, and all that came after it."""
    cleaned = rnd.choice([len(came), rnd.randint(0, len(came))])
    newest = {_key(record): offset for offset, record in came[:cleaned]}
    return [(offset, r) for at, (offset, r) in enumerate(came) if at >= cleaned or newest[_key(r)] == offset]


def _key(record: OldRecord) -> str:
    return record.value.split()[0]


def _position(
    rnd: random.Random,
    old: Sequence[OldRecord],
    seen: Sequence[OldRecord],
    cut: int,
    *,
    remembered: int,
    untracked: bool = True,
) -> Want:
    lacking = rnd.choice([0, 0, rnd.randint(0, cut - 1)]) if untracked else 0
    known = seen[: cut - lacking][-remembered:]
    place, end = known[-1].offset + 1, seen[cut - 1].offset + 1
    between = [r for r in old if place <= r.offset < end]
    dense = len(between) == end - place and not any(r.aborted for r in between)
    return Want(
        source="orders",
        topic="orders",
        partition=0,
        target_topic="orders",
        offset=end,
        ring=Fingerprints.of(Fingerprint(r.offset, r.time, digest(r.value)) for r in known),
        ring_offset=place,
        dense=rnd.choice([dense, dense, None]) if dense else rnd.choice([False, None]),
        begin_known=old[0].offset,
        timestamp_ms=max(r.time for r in known),
    )


@dataclass(frozen=True)
class Dealt:
    """A topic of as many partitions on both sides, of which the standby's may be filled by another hash."""

    log: Standby
    here: tuple[tuple[tuple[int, int], ...], ...]
    """By partition, (standby offset, serial)."""
    wants: tuple[Want, ...]
    unread: frozenset[int]

    def skipped(self, targets: Sequence[Target]) -> set[int]:
        """Unread serials that the standby holds, but in no partition at or after its place."""
        places = {target.target_partition: target.target_offset or 0 for target in targets}
        after = {serial for number, row in enumerate(self.here) for offset, serial in row if offset >= places[number]}
        return {serial for row in self.here for _, serial in row} & set(self.unread) - after


def deal(seed: int) -> Dealt:
    """A topic of two to four partitions, every one of them read to somewhere."""
    rnd = random.Random(seed)
    count, keys, compacted = rnd.randint(2, 4), rnd.choice([20, 10**6]), rnd.random() < 0.3
    hashes = [random.Random(rnd.random()) for _ in range(2)]
    places: tuple[dict[str, int], dict[str, int]] = ({}, {})
    old: list[list[OldRecord]] = [[] for _ in range(count)]
    came: list[list[tuple[int, OldRecord]]] = [[] for _ in range(count)]
    for serial in range(rnd.randint(60, 400)):
        key = str(rnd.randrange(keys))
        there, here = (place.setdefault(key, by.randrange(count)) for place, by in zip(places, hashes, strict=True))
        record = OldRecord(len(old[there]), T0 + serial, f"{key} {serial}", serial, aborted=False)
        old[there].append(record)
        came[here].append((len(came[here]), record))
    cuts = [rnd.randint(min(ENOUGH, len(row)), len(row)) for row in old]
    kept = [_compacted(rnd, row) if compacted else row for row in came]
    slots = [Slot([(offset, r.time, r.value) for offset, r in row]) for row in kept]
    positions = [
        _position(rnd, row, row, cut, remembered=256) if cut else None for row, cut in zip(old, cuts, strict=True)
    ]
    return Dealt(
        log=standby(*slots, per_fetch=1000, cleanup="compact" if compacted else "delete"),
        here=tuple(tuple((offset, r.serial) for offset, r in row) for row in kept),
        wants=tuple(
            want([], partition=number) if position is None else replace(position, partition=number)
            for number, position in enumerate(positions)
        ),
        unread=frozenset(r.serial for row, cut in zip(old, cuts, strict=True) for r in row[cut:]),
    )
