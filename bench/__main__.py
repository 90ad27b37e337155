"""``python -m bench``: take the measurements, write ``report.json`` and ``report.md``, print the page.

Exit code 0: all were taken, whatever they say. Exit code 2: one came to no end, and the report says which and why. Or
files differ from the commit, and nothing was measured (``--draft`` measures all the same).
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    attachment,
    crowd,
    demo,
    desk,
    desk_size,
    drill,
    environment,
    exact,
    light,
    lookup,
    lookup_100k,
    size,
    state,
    switch,
    switchover,
    switchover_four,
    takeover,
    thousand,
    timeline,
    tracking,
    tracking_cost,
    watch,
)
from bench.report import Report, Row, result_of
from bench.setting import Setting
from bench.steps_picture import to_svg
from lab.interrupt import run_interruptible
from lab.world import KAFKA_VERSIONS
from orchestrator.cli.interpreter import keep_loaded
from reports.errors import ReportsError
from reports.origin import origin
from reports.result import write
from streaming import class_archive

_MODULES = (
    lookup, lookup_100k, exact, tracking, tracking_cost, timeline, switch, switchover, switchover_four, state,
    attachment, light, drill, takeover, watch, desk, desk_size, size, thousand, crowd, demo,
)  # fmt: skip
MEASUREMENTS: Mapping[str, Callable[[Setting], list[Row]]] = {
    **{module.NAME: module.measure for module in _MODULES},
    switchover.NAME_OF_THREE: switchover.measure_three,
    switchover.NAME_OF_CARRY: switchover.measure_carry,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the measurements that are named and report on them."""
    chosen = _parse(arguments)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ[class_archive.SETTING] = "off"  # a plain restart has none: both sides start alike
    try:
        on = origin(draft=chosen.draft or None)
    except ReportsError as error:
        print(error, file=sys.stderr)
        return 2
    directory = Path(chosen.dir).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    started_at, began = datetime.now(UTC), time.monotonic()
    machine = environment.machine()
    keep_loaded()  # as each process of the product does
    rows: list[Row] = []
    failures: dict[str, str] = {}
    for name in chosen.only or MEASUREMENTS:
        setting = _setting(directory / name, chosen)
        try:
            rows += MEASUREMENTS[name](setting)
        except Exception as error:  # noqa: BLE001 - the loop's edge: the others are measured all the same, and it is reported
            failures[name] = f"{type(error).__name__}: {error}"
            setting.say(f"not measured: {failures[name]}")
    report = Report(
        command="python -m bench " + " ".join(_without_dir(arguments if arguments is not None else sys.argv[1:])),
        origin=on,
        started_at=started_at.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        machine=machine,
        versions=environment.versions(KAFKA_VERSIONS[0]),
        rows=rows,
        failures=failures,
    )
    steps = to_svg(rows)
    picture = directory / f"{directory.name}.svg"
    if steps:
        picture.write_text(steps, encoding="utf-8")
    page = write(result_of(report, directory.name, picture.name if steps else ""), directory / "report.json")
    print(page.read_text(encoding="utf-8"))
    print(f"written to {page}", file=sys.stderr)
    return 2 if failures else 0


def _setting(directory: Path, chosen: argparse.Namespace) -> Setting:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{directory.name} {time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    return Setting(directory=directory, runs=chosen.runs, base_port=chosen.base_port, say=say)


def _without_dir(arguments: Sequence[str]) -> list[str]:
    """The command as it is worth repeating: where it wrote to says nothing elsewhere."""
    kept = list(arguments)
    if "--dir" in kept:
        at = kept.index("--dir")
        del kept[at : at + 2]
    return kept


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ours and the alternative, side by side.")
    parser.add_argument("--dir", default="build/bench", help="everything is written here; its measurements are emptied")
    parser.add_argument("--draft", action="store_true", help="measure files that differ from the commit, for no report")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=sorted(MEASUREMENTS), help="some of them")
    parser.add_argument("--runs", type=_positive, help="whole moves to measure (default: 3 failovers, 10 switchovers)")
    parser.add_argument("--base-port", type=int, default=31600, help="first of 30 ports that nothing else uses")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


if __name__ == "__main__":
    sys.exit(run_interruptible(main))
