"""The verdict's arithmetic: what was sent, what the standby holds, what a sink got. Pure.

**By id** (sinks that keep ids) everything is exact. **By window** (sinks that keep a count and a sum of ids) the truth
of a window is what the standby holds, every id once. A query may rightly have delivered more than that, in two ways
only, and both leave little freedom because a query reads each partition in order and without gaps:

- it read records on the primary that never reached the standby: of a partition's tail of such records, a *prefix*;
- it does not de-duplicate, and the replicator wrote records again: of a partition's extra copies, a *suffix*.

A window is right when truth plus one such choice gives exactly its count and its sum of ids; a loss and a repeat in one
window keep the count and betray themselves by the sum. What no choice explains is lost or duplicated, at least as much
as the count says, and at least one of each where the counts agree and the sums do not.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

_MOST_SUMS = 400_000
"""So many different sums are tried for one window; beyond, only the bounds are checked and the window is `unproven`."""


@dataclass(frozen=True, slots=True)
class Held:
    """One record of a cluster's log."""

    id: int
    partition: int
    offset: int
    at_ms: int


@dataclass(frozen=True)
class Tally:
    """Records and the sum of their ids."""

    count: int = 0
    ids: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.count + other.count, self.ids + other.ids)

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(self.count - other.count, self.ids - other.ids)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of the records of one query, in records; None is unknown."""

    acked: int
    replicated: int
    """Acknowledged, and on the standby."""
    resent: int
    """Extra copies of one id on the standby."""
    delivered: int
    """Different records that the sink got."""
    lost: int
    """On the standby, and not delivered."""
    duplicated: int
    """Delivered more often than the standby holds them."""
    exposed: int
    """Acknowledged, and not on the standby."""
    late_dropped: int | None
    """Dropped behind the watermark: 0 without one; a sink cannot tell, so None with one."""
    unproven: int = 0
    """Windows with so many records in doubt that only bounds could be checked."""

    @property
    def clean(self) -> bool:
        """Whether nothing was lost and nothing repeated."""
        return not self.lost and not self.duplicated


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is known without asking any sink."""

    acked: frozenset[int]
    standby: Mapping[int, Sequence[Held]]
    """By id, every copy on the standby in offset order."""
    tails: Mapping[int, Sequence[Held]]
    """By partition: records that may be on the primary and are not on the standby, in the primary's order."""

    @classmethod
    def gather(cls, *, acked: Iterable[int], standby: Iterable[Held], elsewhere: Iterable[Held]) -> Self:
        """Sort out what was read; `elsewhere` is everything known of the primary, in its order by partition."""
        copies: defaultdict[int, list[Held]] = defaultdict(list)
        for held in standby:
            copies[held.id].append(held)
        tails: defaultdict[int, dict[int, Held]] = defaultdict(dict)
        for held in elsewhere:
            if held.id not in copies:
                tails[held.partition].setdefault(held.id, held)
        return cls(
            acked=frozenset(acked), standby=copies,
            tails={partition: list(tail.values()) for partition, tail in tails.items()},
        )  # fmt: skip


def judge_by_id(truth: Truth, deliveries: Mapping[int, int]) -> Verdict:
    """Judge a sink that knows how often each id was delivered."""
    duplicated = sum(
        max(0, times - max(1, len(truth.standby.get(identity, ())))) for identity, times in deliveries.items()
    )
    return _verdict(
        truth,
        delivered=sum(1 for times in deliveries.values() if times),
        lost=sum(1 for identity in truth.standby if not deliveries.get(identity)),
        duplicated=duplicated,
        late_dropped=0,
    )


def judge_by_window(truth: Truth, windows: Mapping[int, Tally], window_ms: int, *, deduplicates: bool) -> Verdict:
    """Judge a sink that keeps, by the window's start in ms, the count and the sum of the ids."""
    expected: defaultdict[int, Tally] = defaultdict(Tally)
    choices: defaultdict[int, list[list[int]]] = defaultdict(list)
    for copies in truth.standby.values():
        expected[_start(copies[0].at_ms, window_ms)] += Tally(1, copies[0].id)
    for tail in truth.tails.values():
        for start, ids in _by_window(tail, window_ms).items():
            choices[start].append(ids)
    if not deduplicates:
        for extra in _extra_copies(truth).values():
            for start, ids in _by_window(extra, window_ms).items():
                choices[start].append(ids[::-1])  # a suffix read from its end is a prefix
    lost = duplicated = unproven = 0
    for start in expected.keys() | windows.keys():
        surplus = windows.get(start, Tally()) - expected[start]
        explained = explains(choices[start], surplus)
        if explained is None:
            unproven += 1
        elif not explained:
            apart = surplus.count == 0
            lost += max(-surplus.count, int(apart))
            duplicated += max(surplus.count, int(apart))
    delivered = sum(tally.count for tally in windows.values()) - duplicated
    return _verdict(truth, delivered=delivered, lost=lost, duplicated=duplicated, late_dropped=None, unproven=unproven)


def explains(choices: Sequence[Sequence[int]], surplus: Tally) -> bool | None:
    """Whether a prefix of each sequence of ids together gives the surplus; None when that is too much to find out."""
    whole = Tally(sum(map(len, choices)), sum(map(sum, choices)))
    if not (0 <= surplus.count <= whole.count and 0 <= surplus.ids <= whole.ids):
        return False
    if 2 * surplus.count > whole.count:  # fewer are left out than taken: look for those, from the other end
        choices, surplus = [ids[::-1] for ids in choices], whole - surplus
    reached = {(0, 0)}
    for ids in choices:
        prefixes = list(enumerate(accumulate(ids, initial=0)))[: surplus.count + 1]
        if len(reached) * len(prefixes) > _MOST_SUMS:
            return None
        reached = {
            (count + more, total + added)
            for count, total in reached
            for more, added in prefixes
            if count + more <= surplus.count and total + added <= surplus.ids
        }
    return (surplus.count, surplus.ids) in reached


def _verdict(
    truth: Truth, *, delivered: int, lost: int, duplicated: int, late_dropped: int | None, unproven: int = 0
) -> Verdict:
    replicated = sum(1 for identity in truth.acked if identity in truth.standby)
    return Verdict(
        acked=len(truth.acked),
        replicated=replicated,
        resent=sum(len(copies) - 1 for copies in truth.standby.values()),
        delivered=delivered,
        lost=lost,
        duplicated=duplicated,
        exposed=len(truth.acked) - replicated,
        late_dropped=late_dropped,
        unproven=unproven,
    )


def _extra_copies(truth: Truth) -> dict[int, list[Held]]:
    extra = sorted((held for copies in truth.standby.values() for held in copies[1:]), key=lambda held: held.offset)
    by_partition: defaultdict[int, list[Held]] = defaultdict(list)
    for held in extra:
        by_partition[held.partition].append(held)
    return by_partition


def _by_window(records: Iterable[Held], window_ms: int) -> dict[int, list[int]]:
    ids: defaultdict[int, list[int]] = defaultdict(list)
    for held in records:
        ids[_start(held.at_ms, window_ms)].append(held.id)
    return ids


def _start(at_ms: int, window_ms: int) -> int:
    return at_ms - at_ms % window_ms
