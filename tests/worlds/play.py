"""Plays worlds: calls the resolver, lets the judge look, makes small what is found, and counts exact places."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields

from streaming.resume.model import Target
from tests.worlds.generate import drawn
from tests.worlds.judge import NUMBERS, Finding, judge
from tests.worlds.question import resolution
from tests.worlds.show import report
from tests.worlds.shrink import shrunk
from tests.worlds.traits import traits
from tests.worlds.world import World

CRASH = "crash"
ORDER = "order"
"""The same partitions, named in another order, got another answer."""


@dataclass
class Tally:
    """Of all worlds that were played."""

    worlds: int = 0
    found: dict[int, list[Finding]] = field(default_factory=dict)
    """By seed."""
    exact: Counter[str] = field(default_factory=Counter)
    """Worlds all of whose targets are exact, by trait."""
    placed: Counter[str] = field(default_factory=Counter)
    """Worlds all of whose partitions got an offset, by trait."""
    repeats: Counter[str] = field(default_factory=Counter)
    """Worlds of which all repeats are known, now and later, by trait."""
    exposure: Counter[str] = field(default_factory=Counter)
    """Worlds of which all exposure is known, by trait."""
    seen: Counter[str] = field(default_factory=Counter)

    def count(self, world: World, apart: str, targets: Iterable[Target]) -> None:
        """One world's targets."""
        places = list(targets)
        numbers = [(each.replay_records, each.replay_later_records, each.exposure_records) for each in places]
        repeats = all(None not in each[:2] for each in numbers)
        exact, placed = all(each.exact for each in places), all(each.target_offset is not None for each in places)
        for trait in (f"plain, but {apart}",) if apart else traits(world):
            self.seen[trait] += 1
            self.exact[trait] += exact
            self.placed[trait] += placed
            self.repeats[trait] += repeats
            self.exposure[trait] += all(each[2] is not None for each in numbers)

    @property
    def wrong_places(self) -> dict[int, list[str]]:
        """Silent losses, false claims of exact places and the like, by seed."""
        return self._of(lambda kind: kind not in NUMBERS)

    @property
    def wrong_numbers(self) -> dict[int, list[str]]:
        """Forecasts that are too small, by seed."""
        return self._of(lambda kind: kind in NUMBERS)

    def _of(self, holds: Callable[[str], bool]) -> dict[int, list[str]]:
        reported = {
            seed: [f"{each.kind}: {each.text}" for each in found if holds(each.kind)]
            for seed, found in self.found.items()
        }
        return {seed: texts for seed, texts in reported.items() if texts}

    def add(self, other: "Tally") -> None:
        """Another's worlds."""
        self.worlds += other.worlds
        self.found |= other.found
        self.exact += other.exact
        self.placed += other.placed
        self.repeats += other.repeats
        self.exposure += other.exposure
        self.seen += other.seen

    def rates(self) -> str:
        """How often worlds of each trait got exact places, as a table."""
        head = f"{'trait':<34}{'worlds':>8}{'placed':>8}{'exact':>8}{'repeats':>9}{'exposure':>10}"
        rows = [
            f"{trait:<34}{count:>8}{self.placed[trait] / count:>8.0%}{self.exact[trait] / count:>8.0%}"
            f"{self.repeats[trait] / count:>9.0%}{self.exposure[trait] / count:>10.0%}"
            for trait, count in sorted(self.seen.items())
        ]
        return "\n".join([head, *rows])


def findings(world: World) -> tuple[tuple[Target, ...], list[Finding]]:
    """What the resolver answers, and what is false in it; an exception is a finding too."""
    try:
        targets = resolution(world).targets
        return targets, [*judge(world, targets), *_by_order(world, targets)]
    except Exception as problem:  # noqa: BLE001 # whatever it is, a resolver must answer
        return (), [Finding(CRASH, 0, f"{type(problem).__name__}: {problem}")]


def _by_order(world: World, targets: tuple[Target, ...]) -> list[Finding]:
    """The partitions whose target depends on the order in which they were named."""
    if len(world.partitions) < 2:
        return []
    pairs = zip(targets, resolution(world, backwards=True).targets, strict=True)
    return [
        Finding(ORDER, one.target_partition, f"{names} differ with the partitions named backwards")
        for one, other in pairs
        if (names := [each.name for each in fields(one) if getattr(one, each.name) != getattr(other, each.name)])
    ]


def play(seeds: Iterable[int]) -> Tally:
    """The worlds of these seeds."""
    tally = Tally()
    for seed in seeds:
        world, apart = drawn(seed)
        targets, found = findings(world)
        tally.worlds += 1
        if targets:
            tally.count(world, apart, targets)
        if found:
            tally.found[seed] = found
    return tally


def smallest(world: World, kind: str | None = None) -> str:
    """A report of the smallest world that still has the first kind of mistake of this one, or that ``kind``."""
    _, found = findings(world)
    wanted = kind or found[0].kind
    small = shrunk(world, lambda other: any(each.kind == wanted for each in findings(other)[1]))
    return report(small, *findings(small))
