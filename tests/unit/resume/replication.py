"""Random worlds: an old log, a replicator that restarts and sends again, and a reader somewhere in the middle.

Each record carries a serial number that the resolver never sees; with it the harness tells what was skipped and what
was read twice. The draws come from one seeded ``random.Random``, so a failing world is named by its seed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from standby import T0, Slot, Standby, digest, rules, standby

from state.model import Fingerprint
from state.settings import MethodName
from streaming.resume.model import Rules, Target, Want


@dataclass(frozen=True)
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
    """(standby offset, serial) of every copy."""
    want: Want
    rules: Rules
    read: frozenset[int]
    unread: frozenset[int]
    last: int
    resent: bool
    lookalikes: bool
    """Equal records that content cannot tell apart: then only safety is owed, not exactness."""

    def skipped(self, target: Target) -> set[int]:
        """Unread serials that the standby holds, but not at or after the place."""
        assert target.target_offset is not None
        after = {serial for offset, serial in self.here if offset >= target.target_offset}
        return {serial for _, serial in self.here} & set(self.unread) - after

    def repeated(self, target: Target) -> int:
        """Copies of read records at or after the place."""
        assert target.target_offset is not None
        return sum(serial in self.read for offset, serial in self.here if offset >= target.target_offset)

    def repeated_first_copies(self, target: Target) -> int:
        """Read records whose first copy lies at or after the place: those that the replicator did not send again."""
        assert target.target_offset is not None
        before = {serial for offset, serial in self.here if offset < target.target_offset}
        return len({serial for _, serial in self.here} & self.read - before)


def draw(seed: int) -> World | None:
    """A world, or None where the draw holds nothing to look for."""
    rnd = random.Random(seed)
    old = _old_log(rnd)
    mirrors_aborted = rnd.random() < 0.7
    sent = _replicated(rnd, [r for r in old if mirrors_aborted or not r.aborted])
    seen = [r for r in old if not r.aborted]
    if not seen or not sent:
        return None
    cut = rnd.randint(1, len(seen))
    stamped = rnd.random() < 0.25
    here = _laid_out(rnd, sent)
    records = [(offset, T0 + 5000 + offset if stamped else r.time, r.value) for offset, r in here]
    return World(
        log=standby(
            Slot(records, append_time=stamped, end=records[-1][0] + rnd.choice([1, 1, 2])),
            per_fetch=rnd.choice([1, 3, 50, 1000]),
            knows_type=rnd.random() < 0.5,
        ),
        here=tuple((offset, r.serial) for offset, r in here),
        want=_position(rnd, old, seen, cut),
        rules=rules(
            *rnd.choice([(MethodName.EXACT, MethodName.TIMESTAMP), (MethodName.TIMESTAMP,)]),
            context=rnd.choice([1, 8, 16, 32]),
            buffer_ms=10_000 if stamped else rnd.choice([0, 7, 10_000]),
        ),
        read=frozenset(r.serial for r in seen[:cut]),
        unread=frozenset(r.serial for r in seen[cut:]),
        last=seen[cut - 1].serial,
        resent=len({r.serial for r in sent}) < len(sent),
        lookalikes=_has_lookalikes(sent, seen, seen[cut - 1], stamped=stamped),
    )


def _has_lookalikes(sent: Sequence[OldRecord], seen: Sequence[OldRecord], last: OldRecord, *, stamped: bool) -> bool:
    """Replicated aborted records that equal read ones; or a re-send next to a record that equals the last one read."""

    def identity(record: OldRecord) -> tuple[str, int]:
        return record.value, 0 if stamped else record.time

    aborted = {identity(record) for record in sent if record.aborted}
    again = len({record.serial for record in sent}) < len(sent)
    twins = sum(identity(record) == identity(last) for record in seen) > 1
    return bool(aborted & {identity(record) for record in seen}) or (again and twins)


def _old_log(rnd: random.Random) -> list[OldRecord]:
    alphabet, same_ms, jitter = rnd.choice([1, 2, 3, 10, 10**6]), rnd.choice([1, 1, 3, 30]), rnd.choice([0, 0, 20])
    aborts, markers = rnd.choice([(0.0, 0.0), (0.1, 0.05)])
    records, offset = [], rnd.choice([0, 0, 100]) - 1
    for serial in range(rnd.randint(1, 150)):
        offset += 1
        time = T0 + serial // same_ms + rnd.randint(-jitter, jitter)
        records.append(OldRecord(offset, time, str(rnd.randrange(alphabet)), serial, rnd.random() < aborts))
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


def _position(rnd: random.Random, old: Sequence[OldRecord], seen: Sequence[OldRecord], cut: int) -> Want:
    untracked = rnd.choice([0, 0, rnd.randint(0, cut - 1)])
    known = seen[: cut - untracked][-rnd.choice([64, 256]) :]
    place, end = known[-1].offset + 1, seen[cut - 1].offset + 1
    between = [r for r in old if place <= r.offset < end]
    dense = len(between) == end - place and not any(r.aborted for r in between)
    return Want(
        source="orders",
        topic="orders",
        partition=0,
        target_topic="orders",
        offset=end,
        ring=tuple(Fingerprint(r.offset, r.time, digest(r.value)) for r in known),
        ring_offset=place,
        dense=rnd.choice([dense, dense, None]) if dense else rnd.choice([False, None]),
        begin_known=old[0].offset,
        timestamp_ms=max(r.time for r in known),
    )
