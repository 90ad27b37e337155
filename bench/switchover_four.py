"""The pause of four queries that cost more than the examples and go at once, as ``bench.switchover`` takes it.

By ``auto``, and by ``carry``; beside the pauses of all stand the shortest and the longest of each round.
"""

from functools import partial
from pathlib import Path

from bench.report import Row
from bench.setting import Setting
from bench.switchover import Declared, Taken, open_restartable, play, row
from lab.stage import stage

NAME = "switchover-four"
ROUNDS = 6
DEMANDING = {"revenue": "joined", "orders": "sessions", "archive": "sliding", "latest": "both"}
"""By query of the examples, the one of ``bench.demanding`` that takes its place."""


def measure(setting: Setting) -> list[Row]:
    """Of four demanding queries that go at once, by ``auto`` and by ``carry``. Raises BenchError."""
    rows: list[Row] = []
    for resume in ("auto", "carry"):
        with stage(setting.directory / resume, setting.say) as on:
            opened = open_restartable(on, setting.base_port, tuple(DEMANDING), partial(demanding, resume=resume))
            taken = play(on, opened, setting.count(ROUNDS))
            on.stop(opened.runner)
        what = f"four demanding queries at once, resume: {resume}"
        rows += (each(NAME, what, taken, goes_on=resume != "carry") for each in (row, shortest, longest))
    return rows


def demanding(query: Declared, resume: str) -> Declared:
    """A query of the examples with a pipeline that costs more."""
    name = Path(str(query["checkpoint"])).name
    plain = {key: value for key, value in query.items() if key not in {"methods", "buffer"}}
    folder = Path(str(query["settings"]["sink"])).with_name(f"{name}-demanding")
    return {
        **plain, "pipeline": f"bench.demanding:{DEMANDING[name]}", "settings": {"sink": str(folder)},
        "sink": "batch-id", "resume": resume,
    }  # fmt: skip


def shortest(name: str, what: str, taken: Taken, *, goes_on: bool) -> Row:
    """The same of the shortest pause of each round, beside the shortest restart."""
    return row(name, f"the shortest of {what}", taken.of_each_round(min), goes_on=goes_on)


def longest(name: str, what: str, taken: Taken, *, goes_on: bool) -> Row:
    """The same of the longest."""
    return row(name, f"the longest of {what}", taken.of_each_round(max), goes_on=goes_on)
