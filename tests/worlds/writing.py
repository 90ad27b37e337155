"""The old partition of a world: who wrote what, by which clock, in which transactions."""

import random
from dataclasses import dataclass

from tests.worlds.apart import DISORDER, RETAINED_HERE, TRANSACTIONS
from tests.worlds.world import ABORTED, COMMITTED, OPEN, Written

_SIZES = (3, 8, 30, 60, 120, 400)


@dataclass(frozen=True)
class Writing:
    """How the producers write."""

    count: int
    step_ms: int
    clocks: tuple[int, ...] = (0,)
    """By how much each producer's clock is ahead."""
    payloads: int | None = None
    """So many different ones; None: each is new."""
    transactions: bool = False
    holes: float = 0.0
    """Share of records that compaction has removed."""
    begin: int = 0
    """Retention has deleted what lies before it, before anybody read it."""
    stamped: bool = False
    """The old cluster stamps records itself, so that clocks do not count."""

    @classmethod
    def drawn(cls, chance: random.Random, *, plain: bool, apart: str) -> "Writing":
        """By chance."""
        count, step = chance.randint(2, chance.choice(_SIZES)), chance.choice((0, 1, 10, 10, 1_000))
        if plain:
            return cls(
                count=max(40, count),
                step_ms=step,
                clocks=(0, -50) if apart == DISORDER else (0,),
                transactions=apart == TRANSACTIONS,
                begin=1_000 if apart == RETAINED_HERE else 0,
            )
        return cls(
            count=count,
            step_ms=step,
            clocks=chance.choice(
                ((0,),) * 4 + ((0, -50), (0, 2_000), (0, -3_000, 700), (0, 3_600_000), (0, -1_500_000))
            ),
            payloads=chance.choice((None,) * 6 + (1, 2, 5)),
            transactions=chance.random() < 0.25,
            holes=chance.choice((0.0,) * 5 + (0.05, 0.5)),
            begin=chance.choice((0,) * 8 + (7, 1_000)),
            stamped=chance.random() < 0.1,
        )


@dataclass(frozen=True)
class Source:
    """The old partition, and when each record was really appended."""

    records: tuple[Written, ...]
    begin: int
    end: int
    appended: dict[int, int]
    """Real time of the append by offset, also of what is no record."""

    @property
    def stable(self) -> int:
        """The first offset of an open transaction, or the end."""
        return next((each.offset for each in self.records if each.state == OPEN), self.end)

    def position(self, chance: random.Random, *, committed: bool, plain: bool) -> int:
        """Somewhere that the query may have read to."""
        most = self.stable if committed else self.end
        if plain:
            return chance.randint(self.begin + 24, max(self.begin + 24, most))
        draw = chance.random()
        if draw < 0.07:
            return self.begin
        if draw < 0.2:
            return most
        return chance.randint(self.begin, most)


def written(chance: random.Random, how: Writing) -> Source:
    """The partition that such producers leave behind."""
    rows, appended, offset, time, left = [], {}, how.begin, 0, how.count
    while left:
        state, size = COMMITTED, 1
        if how.transactions:
            size = min(left, chance.randint(1, 12))
            state = chance.choices((COMMITTED, ABORTED), (0.8, 0.2))[0]
            if size == left and chance.random() < 0.3:
                state = OPEN
        for _ in range(size):
            time += chance.choice((0, how.step_ms, how.step_ms, 3 * how.step_ms))
            stamp = time if how.stamped else max(0, time + chance.choice(how.clocks))
            rows.append(Written(offset, stamp, _payload(chance, how, offset), state))
            appended[offset] = time
            offset += 1
        if how.transactions and state != OPEN:
            appended[offset] = time
            offset += 1
        left -= size
    kept = [each for each in rows if each.state == OPEN or chance.random() >= how.holes]
    return Source(tuple(kept), how.begin, offset, appended)


def _payload(chance: random.Random, how: Writing, offset: int) -> str:
    return f"r{offset}" if how.payloads is None else f"p{chance.randrange(how.payloads)}"
