"""Whether a place on the standby is right: by the records' numbers, which no resolver can see."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.alignment.records import Kept


@dataclass(frozen=True)
class Verdict:
    """What a query that read up to a position would lose and repeat when it resumes at a place."""

    lost: int
    """Unread records that the standby has, all copies before the place: the place is too late."""
    repeated: int
    """Records that were read and whose first copy lies at the place or after it: the place is earlier than need be."""
    resent: int
    """Records that were read and lie at the place or after it only because the replicator sent them again."""
    absent: int
    """Records that were read and that the standby does not have: a lagging replicator brings them later."""

    @property
    def kind(self) -> str:
        """``later``, ``earlier`` or ``exact``."""
        return "later" if self.lost else "earlier" if self.repeated else "exact"


class Judge:
    """Judges places of one partition.

    ``old`` is what the query sees of the primary, ``here`` all of the standby.
    """

    def __init__(self, old: Sequence[Kept], here: Sequence[Kept]) -> None:
        self._offsets = [record.offset for record in old]
        self._numbers = [record.number for record in old]
        self._copies: dict[int, list[int]] = defaultdict(list)
        for record in here:
            if record.number is not None:
                self._copies[record.number].append(record.offset)

    def judge(self, position: int, place: int) -> Verdict:
        """Hold the place of a position (an offset of the primary, next to read) against both logs."""
        split = bisect_left(self._offsets, position)
        numbers = [number for number in self._numbers[:split] if number is not None]
        read = [self._copies.get(number, []) for number in numbers]
        unread = [self._copies.get(number, []) for number in self._numbers[split:] if number is not None]
        return Verdict(
            lost=sum(bool(copies) and max(copies) < place for copies in unread),
            repeated=sum(bool(copies) and min(copies) >= place for copies in read),
            resent=sum(bool(copies) and min(copies) < place <= max(copies) for copies in read),
            absent=sum(not copies for copies in read),
        )
