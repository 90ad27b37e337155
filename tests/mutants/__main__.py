"""``python -m tests.mutants``: make mutants, run the fast tests on each, print what survived.

Exit code 0: every mutant is killed or explained. 1: some survived, each printed with its place. 2: the tests fail
without a mutant, or the catalogue no longer fits the program.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.areas import AREAS, Area
from tests.mutants.catalogue import CATALOGUE
from tests.mutants.explained import EXPLAINED
from tests.mutants.mutate import mutants
from tests.mutants.trial import Copy, Outcome

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Trial:
    """One mutant to be tried."""

    key: str
    module: str
    line: int
    text: str
    """The module with the mistake in it."""
    tests: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try, print, and return the exit code."""
    options = _parse(arguments)
    trials = [] if options.only == "catalogue" else drawn(options.seed, options.count, options.area)
    if options.only != "drawn":
        missing = [mistake.why for mistake in CATALOGUE if mistake.old not in _read(mistake.module)]
        if missing:
            print("the catalogue no longer fits the program:", *missing, sep="\n  ", file=sys.stderr)
            return 2
        trials += curated(options.area)
    print(f"{len(trials)} mutants, seed {options.seed}, {options.workers} at a time", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(ROOT, Path(folder) / str(number)) for number in range(options.workers)]
        tests = tuple(sorted({test for trial in trials for test in trial.tests}))
        sound = copies[0].passes(tests)
        if sound.killed:
            print(f"the tests fail without a mutant: {sound.by}", file=sys.stderr)
            return 2
        outcomes = _try_all(trials, copies)
    return _print_outcomes(trials, outcomes)


def drawn(seed: int, count: int, area: str | None) -> list[Trial]:
    """Mutants drawn by a seed, as many from each area as its share of ``count``."""
    areas = [each for each in AREAS if area in {None, each.name}]
    chance = random.Random(seed)
    found: list[Trial] = []
    for number, each in enumerate(areas):
        share = count // len(areas) + (number < count % len(areas))
        every = [(mutant, text) for module, text in _modules(each) for mutant in mutants(module, text)]
        found += [
            Trial(mutant.key, mutant.module, mutant.line, mutant.applied(text), each.tests)
            for mutant, text in chance.sample(every, min(share, len(every)))
        ]
    return found


def curated(area: str | None) -> list[Trial]:
    """The mistakes of the catalogue."""
    found = []
    for mistake in CATALOGUE:
        text = _read(mistake.module)
        if area is None or any(mistake.module in dict(_modules(each)) for each in AREAS if each.name == area):
            line = text[: text.index(mistake.old)].count("\n") + 1
            found.append(
                Trial(f"{mistake.module}: {mistake.why}", mistake.module, line,
                      text.replace(mistake.old, mistake.new, 1), mistake.tests)
            )  # fmt: skip
    return found


def _try_all(trials: Sequence[Trial], copies: Sequence[Copy]) -> list[Outcome]:
    free, lock, begun = list(copies), threading.Lock(), time.monotonic()
    outcomes: dict[int, Outcome] = {}

    def try_out(number: int) -> None:
        trial = trials[number]
        with lock:
            copy = free.pop()
        outcome = copy.try_out(trial.module, trial.text, trial.tests)
        with lock:
            free.append(copy)
            outcomes[number] = outcome
            word = f"killed by {outcome.by}" if outcome.killed else "SURVIVED"
            print(f"{len(outcomes):3}/{len(trials)} {time.monotonic() - begun:6.0f} s  {trial.key}  {word}", flush=True)

    with ThreadPoolExecutor(len(copies)) as workers:
        list(workers.map(try_out, range(len(trials))))
    return [outcomes[number] for number in range(len(trials))]


def _print_outcomes(trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> int:
    survivors = [trial for trial, outcome in zip(trials, outcomes, strict=True) if not outcome.killed]
    unexplained = [trial for trial in survivors if trial.key not in EXPLAINED]
    killed, explained = len(trials) - len(survivors), len(survivors) - len(unexplained)
    print(f"\n{len(trials)} mutants: {killed} killed, {explained} explained, {len(unexplained)} survived")
    for trial in survivors:
        why = EXPLAINED.get(trial.key, "NOT EXPLAINED")
        line = trial.text.splitlines()[trial.line - 1].strip()
        print(f"  {trial.module}:{trial.line}: {line}\n    {trial.key}\n    {why}")
    return 1 if unexplained else 0


def _modules(area: Area) -> list[tuple[str, str]]:
    paths = sorted({path for pattern in area.modules for path in ROOT.glob(pattern)})
    assert paths, f"{area.name}: no module is found by {area.modules}"
    return [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in paths]


def _read(module: str) -> str:
    path = ROOT / module
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="which mutants are drawn")
    parser.add_argument("--count", type=int, default=66, help="how many are drawn, from all areas alike")
    parser.add_argument("--area", choices=[each.name for each in AREAS], help="one area only")
    parser.add_argument("--only", choices=("drawn", "catalogue"), help="leave out the others")
    parser.add_argument("--workers", type=int, default=2, help="how many are tried at a time")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
