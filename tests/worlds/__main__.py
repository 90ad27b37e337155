"""``python -m tests.worlds``: play many worlds, or one again by its seed."""

import argparse
import random
import sys
import time
from collections import Counter

from tests.worlds.generate import world_of
from tests.worlds.play import findings, play, smallest
from tests.worlds.show import report


def main() -> int:
    """The exit code: 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description="Play worlds against the resolver.")
    parser.add_argument("--count", type=int, default=2_000, help="worlds to play (default: %(default)s)")
    parser.add_argument("--first", type=int, help="seed of the first world (default: by chance)")
    parser.add_argument("--seed", type=int, help="play only the world of this seed, and print it")
    parser.add_argument(
        "--shrink", type=int, default=3, help="findings of each kind to make small (default: %(default)s)"
    )
    parser.add_argument("--kind", help="look only for this kind of finding")
    given = parser.parse_args()
    if given.seed is not None:
        return _one(given.seed, given.kind, shrink=given.shrink > 0)
    first = random.SystemRandom().randrange(10**9) if given.first is None else given.first
    began = time.monotonic()
    tally = play(range(first, first + given.count))
    print(f"--first {first} --count {given.count}: {time.monotonic() - began:.1f} s")
    print(tally.rates())
    kinds = Counter(each.kind for found in tally.found.values() for each in {one.kind: one for one in found}.values())
    print(f"{len(tally.found)} worlds with findings: {dict(kinds)}")
    shown: Counter[str] = Counter()
    for seed, found in tally.found.items():
        for kind in dict.fromkeys(each.kind for each in found):
            if shown[kind] < given.shrink and given.kind in (None, kind):
                shown[kind] += 1
                print(f"\n--seed {seed} --kind {kind}\n{smallest(world_of(seed), kind)}")
    return 1 if tally.found else 0


def _one(seed: int, kind: str | None, *, shrink: bool) -> int:
    world = world_of(seed)
    targets, found = findings(world)
    if not found or not shrink:
        print(report(world, targets, found))
    else:
        print(smallest(world, kind))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
