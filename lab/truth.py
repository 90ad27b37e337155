"""What is known without reading any sink: what producers were acknowledged, and what both clusters hold. Pure.

The order of a primary's partition is the order in which a query read it. A primary that is dead cannot give
it; then it follows from what its producers were answered, see `in_order`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from lab.ledger import IDS_PER_RUN, Sent

_Record = TypeVar("_Record", "Held", Sent)


@dataclass(frozen=True, slots=True)
class Held:
    """One record of a cluster's log."""

    id: int
    partition: int
    offset: int
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Topic:
    """One topic of a query on both clusters."""

    acked: frozenset[int]
    """Ids that either cluster acknowledged to producers."""
    primary: Mapping[int, Sequence[Held]]
    """By partition, in the order of the primary's log; records at its end may never have been written."""
    standby: Mapping[int, Sequence[Held]]
    """By partition, in offset order, every copy."""

    @classmethod
    def gather(
        cls,
        *,
        standby: Iterable[Held],
        primary: Iterable[Held] = (),
        sent: Iterable[Sent] = (),
        direct: Iterable[Sent] = (),
    ) -> "Topic":
        """Sort out what was read of both clusters, `sent` to the primary, and sent `direct` to the standby."""
        sent, on_primary, on_standby = list(sent), by_partition(primary), by_partition(standby)
        to_primary = by_partition(sent)
        return cls(
            acked=frozenset(each.id for each in (*sent, *direct) if each.acknowledged),
            primary={
                partition: in_order(on_primary.get(partition, ()), to_primary.get(partition, ()))
                for partition in on_primary.keys() | to_primary.keys()
            },
            standby=on_standby,
        )  # fmt: skip

    def tails(self) -> Iterator[list[int]]:
        """The ids of each partition that may be on the primary and are not on the standby, in the primary's order."""
        held = {each.id for log in self.standby.values() for each in log}
        for log in self.primary.values():
            yield [each.id for each in log if each.id not in held]


@dataclass(frozen=True)
class Truth:
    """All topics of a query, by their names on the primary."""

    topics: Mapping[str, Topic] = field(default_factory=dict)

    @cached_property
    def acked(self) -> frozenset[int]:
        """Ids that were acknowledged."""
        return frozenset[int]().union(*(topic.acked for topic in self.topics.values()))

    @cached_property
    def copies(self) -> Counter[int]:
        """How many copies of each id the standby holds."""
        return Counter(held.id for topic in self.topics.values() for log in topic.standby.values() for held in log)

    @cached_property
    def wanted(self) -> Counter[int]:
        """How often each id must be delivered at least: once for each topic of the standby that holds it."""
        return Counter(
            identity
            for topic in self.topics.values()
            for identity in {held.id for log in topic.standby.values() for held in log}
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing was acknowledged and the standby holds nothing, so that there is nothing to deliver."""
        return not self.acked and not self.copies


def by_partition(records: Iterable[_Record]) -> dict[int, list[_Record]]:
    """Records by their partition, otherwise in the order given."""
    found: defaultdict[int, list[_Record]] = defaultdict(list)
    for each in records:
        found[each.partition].append(each)
    return found


def in_order(read: Sequence[Held], sent: Iterable[Sent]) -> list[Held]:
    """Return the records of one partition of the primary in the order of its log.

    `read` is what was read of it, from its beginning, in offset order. What was acknowledged beyond has an offset. What
    was never answered follows the record that its idempotent producer had sent before it, in the
    order of sending. Only as many as there is room for between the offsets of answered ones; at the end, all.
    """
    known, end = {each.id for each in read}, max((each.offset for each in read), default=-1)
    places: list[tuple[int, int, Held]] = [(each.offset, 0, each) for each in read]
    before = -1
    waiting: list[Sent] = []
    for each in sorted((each for each in sent if each.id not in known or each.acknowledged), key=_sending):
        if not each.acknowledged:
            waiting.append(each)
            continue
        room = each.offset - before - 1 if each.offset > end else 0  # what was written before `end` was read
        places += [(before, number, _held(one, before)) for number, one in enumerate(waiting[: max(0, room)], 1)]
        if each.id not in known:
            places.append((each.offset, 0, _held(each, each.offset)))
        before, waiting = each.offset, []
    last = max(before, end)
    places += [(last, number, _held(one, last)) for number, one in enumerate(waiting, 1)]
    return [held for _, _, held in sorted(places, key=lambda place: place[:2])]


def _sending(each: Sent) -> tuple[int, int]:
    """Runs of traffic come one after the other, and ids count up within each."""
    return each.id // IDS_PER_RUN, each.id


def _held(each: Sent, offset: int) -> Held:
    return Held(each.id, each.partition, offset, each.at_ms)
