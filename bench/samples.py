"""The arithmetic of a report: what a handful of samples says, and how two handfuls compare.

Pure. The median stands for the samples, because one run in ten meets a garbage collection. Minimum and maximum stay
beside it, because with few samples they are all that can be said of the spread. No confidence interval is made up from
three runs.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Samples of one quantity, in the order in which they were taken; at least one."""

    samples: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.samples:
            raise ValueError("a spread needs at least one sample")

    @classmethod
    def of(cls, samples: Iterable[float]) -> "Spread | None":
        """The spread of what was measured, or None when nothing was."""
        taken = tuple(samples)
        return cls(taken) if taken else None

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def most(self) -> float:
        return max(self.samples)

    @property
    def count(self) -> int:
        return len(self.samples)


def ratio(ours: Spread | None, theirs: Spread | None) -> float | None:
    """How many times our median fits into theirs: above 1, ours is smaller. None without both, or when ours is 0."""
    if ours is None or theirs is None or ours.median == 0:
        return None
    return theirs.median / ours.median


def multiple(times: float, of: Spread | None) -> float | None:
    """The limit that is so many times another's median; None where that was not measured."""
    return None if of is None else times * of.median


def is_met(ours: Spread | None, limit: float | None) -> bool | None:
    """Whether the median keeps the limit; None when there is no limit, or nothing was measured."""
    if ours is None or limit is None:
        return None
    return ours.median <= limit


def paired_percent(without: Sequence[float], with_it: Sequence[float]) -> tuple[float, ...]:
    """Extra cost of each pair in percent of the first of the pair: 100 and 102 give 2.0.

    Pairs were measured next to each other, so that a slow minute of the machine is in both. ValueError when the two
    are not pairs, or when a base is not positive.
    """
    pairs = list(zip(without, with_it, strict=True))
    if any(base <= 0 for base, _ in pairs):
        raise ValueError("a duration that is to be compared with must be positive")
    return tuple((more - base) / base * 100 for base, more in pairs)
