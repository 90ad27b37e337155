"""What is true in a world, by provenance alone: who read what, and of what each record on the standby is a copy."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.worlds.world import ABORTED, COMMITTED, GONE, MARKER, OPEN, Kept, Partition, World, Written


def was_given(record: Written, world: World) -> bool:
    """Whether a query of this isolation is ever given the record by the old cluster."""
    return record.state == COMMITTED or not world.committed


def consumed(partition: Partition, world: World) -> list[Written]:
    """The records that the query has read, oldest first."""
    return [each for each in partition.written if each.offset < partition.position and was_given(each, world)]


def unread(partition: Partition, world: World) -> list[Written]:
    """The records that the query has yet to read."""
    return [each for each in partition.written if each.offset >= partition.position and was_given(each, world)]


def time_known(partition: Partition, world: World) -> int | None:
    """T: the largest time that tracking saw; where everything was read, the time of the sample (section 3, Track)."""
    seen = within(consumed(partition, world), (*partition.seen, *partition.remembered))
    newest = max((each.time for each in seen), default=None)
    sample = partition.sample
    if sample is None or partition.position < sample.end:
        return newest
    if newest is None:
        return sample.at
    return max(newest, sample.at) if partition.position == sample.end else newest


def within(records: Iterable[Written], ranges: Iterable[tuple[int, int]]) -> list[Written]:
    """The records whose offsets lie in one of the ranges."""
    spans = tuple(ranges)
    return [each for each in records if any(begin <= each.offset < end for begin, end in spans)]


def is_shown(row: Kept, partition: Partition, world: World) -> bool:
    """Whether the standby gives the row to the query, now or once open transactions before it have ended."""
    if row.offset < partition.kept_begin or row.state in (GONE, MARKER):
        return False
    return not (world.committed and row.state in (ABORTED, OPEN))


_HANDFUL = 3


@dataclass(frozen=True)
class Truth:
    """One partition, by old offset."""

    partition: Partition
    world: World
    read: dict[int, Written] = field(init=False)
    ahead: dict[int, Written] = field(init=False)
    """Unread."""
    shown: dict[int, list[int]] = field(init=False)
    """Standby offsets of the copies that the query can be given, by old offset."""
    ever: dict[int, int] = field(init=False)
    """The first copy that ever was on the standby and was not aborted there, by old offset."""
    deleted: set[int] = field(init=False)
    """Old offsets of which retention deleted a copy."""
    compacted: set[int] = field(init=False)
    counted: dict[int, int] = field(init=False)
    """Of rows that by their number alone look like copies, the old offset that each seems to be of."""

    def __post_init__(self) -> None:
        part, world = self.partition, self.world
        object.__setattr__(self, "counted", self._counted())
        shown: dict[int, list[int]] = {}
        ever: dict[int, int] = {}
        copies = [(of, row) for row in part.kept if (of := self.original(row)) is not None]
        read, ahead = self.sides()
        for of, row in copies:
            if is_shown(row, part, world):
                shown.setdefault(of, []).append(row.offset)
            if not (world.committed and row.state in (ABORTED, OPEN)):
                ever.setdefault(of, row.offset)
        values = {
            "read": read,
            "ahead": ahead,
            "shown": shown,
            "ever": ever,
            "deleted": {of for of, row in copies if row.offset < part.kept_begin and row.state == COMMITTED},
            "compacted": {of for of, row in copies if row.state == GONE},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def sides(self) -> tuple[dict[int, Written], dict[int, Written]]:
        """What was read and what was not."""
        part, world = self.partition, self.world
        read, ahead = consumed(part, world), unread(part, world)
        return {each.offset: each for each in read}, {each.offset: each for each in ahead}

    def original(self, row: Kept) -> int | None:
        """What a row is a copy of, as old records are named here; None for another writer's."""
        return self.counted.get(row.offset, row.of)

    def _counted(self) -> dict[int, int]:
        """By offset here, what each row behind the remembered records seems to be a copy of; empty where none does.

        The contents of records that were read after them are unknown, but that each old offset held one. The standby
        has as many rows up to the newest time of the sample as the old log had offsets, and the last has that time.
        Then a world in which each is the copy of one looks the same (``docs/places.md``, what cannot be promised).
        """
        part, sample, known = self.partition, self.partition.sample, self.known()
        if sample is None or not known or part.ring_at == part.position or self.world.append_time:
            return {}
        ring, last = {self._identity(each) for each in known}, known[-1].offset
        at = next((row.offset for row in part.kept if row.of == last and is_shown(row, part, self.world)), None)
        newest = max((each.time for each in part.written if each.offset < sample.end), default=-1)
        behind = [row for row in part.kept if at is not None and row.offset > at and is_shown(row, part, self.world)]
        rows = behind[: sample.end - last - 1]
        older = [row for row in behind if row.time <= newest]
        once = len({self._identity(row) for row in rows}) == len(rows) and not ring & set(map(self._identity, behind))
        if not rows or rows != older or len(rows) < sample.end - last - 1 or rows[-1].time != newest or not once:
            return {}
        gap = range(last + 1, part.position)
        held = {each.offset for each in consumed(part, self.world)}
        return {row.offset: of for row, of in zip(rows, gap, strict=False)} if held.issuperset(gap) else {}

    def known(self) -> list[Written]:
        """The records that are remembered, oldest first."""
        part = self.partition
        spans = part.remembered if part.ring_at is not None else ()
        return [each for each in within(consumed(part, self.world), spans) if each.offset < (part.ring_at or 0)]

    def was_passed(self, of: int) -> bool:
        """Whether the query is behind it."""
        return of < self.partition.position

    def was_sampled(self, of: int) -> bool:
        """Whether it was there when the old partition was last sampled."""
        part = self.partition
        return of < (part.written_end if part.sample is None else part.sample.end)

    def time_known(self) -> int | None:
        """T of the place by time."""
        return time_known(self.partition, self.world)

    def is_in_order(self) -> bool:
        """Whether the order of the standby's times is what a place by time may rely on."""
        return True

    @property
    def remembered(self) -> int:
        """How many records the ring holds."""
        part = self.partition
        spans = part.remembered if part.ring_at is not None else ()
        return sum(any(begin <= of < end for begin, end in spans) for of in self.read)

    @property
    def visible_end(self) -> int:
        """Where the standby ends for the query."""
        stable = self.partition.stable if self.world.committed else None
        return self.partition.kept_end if stable is None else stable

    def skipped(self, target: int) -> list[int]:
        """Unread records that the standby holds, only before the target, by old offset."""
        return self._passed_over(target)[0]

    def is_first_unread(self, at: int) -> bool:
        """Whether the standby holds the copy of the first unread old offset there."""
        return self.ever.get(self.partition.position) == at

    @property
    def hides_a_restart(self) -> bool:
        """Whether the replicator has sent again, and offset syncs that would show it are gone."""
        copies = [row.of for row in self.partition.kept if row.of is not None]
        return self.world.syncs_lost > 0 and copies != sorted(set(copies))

    def strangers(self, target: int) -> list[int]:
        """Other writers' records behind all that was read and before the target, by the standby's offset.

        They were written for the next reader of this topic, so they are no less unread than copies.
        """
        return self._passed_over(target)[1]

    def _passed_over(self, target: int) -> tuple[list[int], list[int]]:
        """A record that was read and is not there cannot be distinguished from an equal one that is.

        Equal is the same payload, and the same time where the standby keeps times. So many of the equal ones stand in
        for it. Where only a handful is remembered, such a one is all that there is to go by, so what lies before it
        seems to be of before.
        """
        missing = Counter(self._identity(record) for of, record in self.read.items() if of not in self.shown)
        copies = [of for of in self.ahead if (at := self.shown.get(of)) and at[-1] < target]
        passed = [*self._passed(), *self._seems_first(target)]
        first = max([self.ideal(), *passed]) if any(of in self.ever for of in self.read) else target
        others = [
            row for row in self.partition.kept
            if self.original(row) is None and first <= row.offset < target
            if is_shown(row, self.partition, self.world)
        ]  # fmt: skip
        left = [of for of in copies if not _replaces(missing, self._identity(self.ahead[of]))]
        strange = [row.offset for row in others if not _replaces(missing, self._identity(row))]
        forged = self._forged(target)
        if self.remembered <= _HANDFUL and forged is not None:
            left = [of for of in left if self.shown[of][-1] > forged]
            strange = [at for at in strange if at > forged]
        return left, strange

    def _passed(self) -> list[int]:
        """Behind which offsets of the standby more lies that the query has passed, by the old log's order.

        Copies of aborted records and of open transactions show it, too. A second copy counts where compaction has taken
        the first one: only younger records can distinguish it then (``docs/places.md``, what cannot be promised).
        """
        behind: dict[int, int] = {}
        for row in self.partition.kept:
            of = self.original(row)
            if of is not None and self.was_passed(of) and row.state not in (GONE, ABORTED):
                behind.setdefault(of, row.offset + 1)
        return list(behind.values())

    def _seems_first(self, target: int) -> list[int]:
        """Behind which offsets records lie that were read, if retention may have left second copies of them alone.

        A standby that stamps records itself, with more before the place than is remembered, cannot show that these are
        no first ones (``docs/places.md``, what cannot be promised).
        """
        before = sum(is_shown(row, self.partition, self.world) and row.offset < target for row in self.partition.kept)
        if not self.world.append_time or before <= self.remembered:
            return []
        begin = self.partition.kept_begin
        return [self.shown[of][0] + 1 for of in self.read if of in self.shown and self.ever[of] < begin]

    def _forged(self, target: int) -> int | None:
        """The last row before the target that is equal to a read record that is not there, and is no copy of it."""
        missing = {self._identity(record) for of, record in self.read.items() if of not in self.shown}
        alike = [
            row.offset for row in self.partition.kept
            if row.offset < target and self.original(row) not in self.read and self._identity(row) in missing
        ]  # fmt: skip
        return max(alike, default=None)

    def _identity(self, record: Written | Kept) -> tuple[str, int | None]:
        """What can be known of a record on the standby."""
        return record.payload, None if self.world.append_time else record.time

    def expired(self) -> list[int]:
        """Unread records, seen on the old cluster, that were copied and that retention here has deleted since."""
        gone = self.deleted - self.shown.keys() - self.compacted
        return [of for of in self.ahead if of in gone and self.was_sampled(of)]

    def repeated(self, target: int, end: int) -> int:
        """Rows from the target to the end that the query is given there, and had read before."""
        return sum(target <= at < end for of in self.read for at in self.shown.get(of, ()))

    def withheld(self, target: int, end: int) -> int:
        """Rows behind that end that repeat what was read: they come once an open transaction has ended."""
        return sum(at >= max(target, end) for of in self.read for at in self.shown.get(of, ()))

    def first_read_from(self, target: int) -> list[int]:
        """Read records whose first copy is shown from the target on: the place is too early for them."""
        return [of for of in self.read if (at := self.ever.get(of, -1)) >= target and at in self.shown.get(of, ())]

    def to_come(self) -> list[int]:
        """Read records that the replicator, continuing from where it is, has yet to append.

        A restart that has not sent anything again yet cannot show: then it continues after its last copy. One that
        keeps offsets, as its route says (section 4, identity), appends nothing at an offset that another writer has
        taken. A restart among equal records cannot show either (``_seems_reached``). Another writer's record that
        equals one that is to come cannot be distinguished from its copy: then it seems to have come.
        """
        part, world = self.partition, self.world
        last = next((of for row in reversed(part.kept) if (of := self.original(row)) is not None), None)
        first = part.next_copy if last is None else max(part.next_copy, last + 1)
        if world.keeps_offsets and self._keeps_offsets() and self._is_taken(first):
            return []
        first = max(first, self._seems_reached())
        coming = [
            of
            for of, record in self.read.items()
            if of >= first and of not in part.filtered
            if record.state == COMMITTED or not self._seems_left_out(record)
            if record.state == COMMITTED or (record.state == ABORTED and not world.copies_committed)
        ]
        others = Counter(self._identity(row) for row in part.kept if row.of is None and is_shown(row, part, world))
        return [of for of in coming if not _replaces(others, self._identity(self.read[of]))]

    def _seems_left_out(self, record: Written) -> bool:
        """Whether a record that was not committed seems to be one that the replicator leaves out.

        One of committed records leaves it out, and what it copies next is an unread record. Another writer's record of
        a time between looks like that (``docs/places.md``, what cannot be promised).
        """
        part, sample = self.partition, self.partition.sample
        if sample is None or sample.end <= part.position or self.world.append_time:
            return False
        newest = max((each.time for each in part.written if each.offset < sample.end), default=-1)
        others = (row for row in part.kept if row.of is None and is_shown(row, part, self.world))
        return any(record.time <= row.time <= newest for row in others)

    def _seems_reached(self) -> int:
        """Behind which old offset the copies seem to have come, where all that lies there looks like one pass; 0: none.

        The old log is A, B, B. One replicator copied A and B, was restarted, and sent that B again. Another one copied
        all three. Both standbys hold A, B, B: no observer can distinguish them, and nothing is to come of the second.
        Offsets of the standby say nothing, for markers take some as well (``docs/places.md``, what cannot be promised).
        Records that equal none of the old log are other writers', wherever they lie.
        """
        part = self.partition
        rows = [row for row in part.kept if row.offset >= part.kept_begin and row.state not in (MARKER, GONE)]
        may_come = [each for each in part.written if each.offset not in part.filtered]
        written = {self._identity(each) for each in part.written}
        old = [self._identity(each) for each in may_come]
        here = [each for each in map(self._identity, rows) if each in written]
        if not here:
            return 0
        ends = (end for end in range(len(old), len(here) - 1, -1) if old[end - len(here) : end] == here)
        return next((may_come[end - 1].offset + 1 for end in ends), 0)

    def _keeps_offsets(self) -> bool:
        return all(row.of == row.offset for row in self.partition.kept if row.of is not None)

    def _is_taken(self, first: int) -> bool:
        """Whether another writer's records lie where the copy of that old record would."""
        return any(row.of is None and row.state != MARKER and row.offset >= first for row in self.partition.kept)

    def lacking(self, *, also_expired: bool) -> list[Written]:
        """Unread records, acknowledged and within the sampled end, that the standby does not have."""
        part = self.partition
        end = part.written_end if part.sample is None else part.sample.end
        return [
            record
            for of, record in self.ahead.items()
            if of < end and record.state == COMMITTED and of not in self.shown and of not in self.compacted
            if also_expired or of not in self.deleted
        ]

    def seems_copied(self) -> int:
        """How many records of other writers are no newer than the old log was when it was last sampled.  Nothing
        distinguishes them from copies of unread records (``docs/places.md``, what cannot be promised). Counting no
        record as a copy would call every unread record exposed.
        """
        part = self.partition
        end = part.written_end if part.sample is None else part.sample.end
        newest = max((each.time for each in part.written if each.offset < end), default=-1)
        return sum(row.of is None and row.time <= newest and is_shown(row, part, self.world) for row in part.kept)

    def ideal(self) -> int:
        """The right place where order was kept: behind each first copy of what was read, before all else."""
        known = [self.ever[of] + 1 for of in self.read if of in self.ever]
        return min(max([self.partition.kept_begin, *known]), self.visible_end)


def _replaces(missing: Counter[tuple[str, int | None]], identity: tuple[str, int | None]) -> bool:
    found = missing[identity] > 0
    missing[identity] -= found
    return found
