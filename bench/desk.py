"""What 200 open pages of the desk cost a failover, and the controller that serves them.

One world of two clusters, MirrorMaker 2 and load, one runner with one query that has state, and one controller that
carries out requests and serves the pages. A round is a failover. Then the load ends, replication is
reversed, and the next round goes the other way. Rounds without and with pages take turns, so that both see the same
machine, and both go both ways. The pages are connections that do what a browser does with the script of the page
(``bench.desk_pages``), in a process of their own on the same cores. What a browser itself costs is not in it.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from bench import environment
from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread, multiple
from bench.setting import Setting
from bench.switchover import leave_alone
from lab.configuration import declaration
from lab.scenario import Script, open_world
from lab.stage import Stage, await_batches, await_running, stage

NAME = "desk"
PAGES = 200
ROUNDS = 4
"""Of each kind, half of them each way."""
KINDS = ("without", "with", "with", "without")
"""One round after the other, which goes the other way."""
TIMES = 1.25
"""The decision to the first commit may take this many times what it takes without pages."""
MEGABYTES = 150.0
ANSWER_SECONDS = 1.0
RATE = 1000
QUERY = "orders"
_BATCHES = 20
_COPIED_SECONDS = 2.0
_OPEN_SECONDS = 15.0
"""For all pages to be open, and fetched again once."""


@dataclass
class Taken:
    """What was measured."""

    switches: dict[str, list[float]] = field(default_factory=lambda: {"without": [], "with": []})
    """Seconds from the decision to the first commit."""
    megabytes: dict[str, list[float]] = field(default_factory=lambda: {"without": [], "with": []})
    answers: list[float] = field(default_factory=list)
    """Of each round, the seconds within which 99 of 100 fetches of a page were answered."""
    refused: int = 0
    fetches: int = 0
    followers: list[int] = field(default_factory=list)


def measure(setting: Setting) -> list[Row]:
    """Raises BenchError."""
    with stage(setting.directory, setting.say) as on:
        return _rows(_play(on, setting.base_port, setting.count(ROUNDS)))


def _play(on: Stage, base_port: int, rounds: int) -> Taken:
    open_world(on, Script(base_port=base_port))
    leave_alone(on.config, (QUERY,))
    port = int(declaration(on.config)["http"]["listen"].rpartition(":")[2])
    runner, controller = on.start_runner(), on.start_controller()
    taken, here, there = Taken(), "east", "west"
    traffic = on.start_traffic(here, RATE, 3600)
    await_running(on, runner, batches=_BATCHES, warm=True)
    for number in range(2 * rounds):
        kind = KINDS[number % len(KINDS)]
        pages = _open(on, port, number) if kind == "with" else None
        taken.switches[kind].append(_fail_over(on, there))
        taken.megabytes[kind].append(environment.megabytes(controller.pid))
        if pages is not None:
            _close(on, pages, number, taken)
        on.say(f"round {number + 1} of {2 * rounds}, {kind} pages: {taken.switches[kind][-1]:.2f} s")
        if number + 1 < 2 * rounds:
            here, there = there, here
            traffic = _turn(on, traffic, here)
    on.stop(runner)
    return taken


def _open(on: Stage, port: int, number: int) -> "Popen[bytes]":
    process = on.start("pages", "bench.desk_pages", str(port), str(PAGES), str(_file(on, number)))
    time.sleep(_OPEN_SECONDS)
    return process


def _close(on: Stage, pages: "Popen[bytes]", number: int, taken: Taken) -> None:
    if on.stop(pages):
        raise BenchError(f"the pages came to no end: see {on.directory / 'pages.log'}")
    seen = json.loads(_file(on, number).read_text(encoding="utf-8"))
    answers = sorted(seen["answers"])
    taken.answers.append(answers[int(0.99 * (len(answers) - 1))])
    taken.fetches += len(answers)
    taken.refused += seen["refused"]
    taken.followers.append(seen["followers"])


def _file(on: Stage, number: int) -> Path:
    return on.directory / f"pages-{number}.json"


def _fail_over(on: Stage, to: str) -> float:
    code, printed = on.tideover("failover", QUERY, "--to", to, "--yes", "--reason", "bench", "-o", "json", check=False)
    answer = json.loads(printed)
    operation: Mapping[str, object] = answer[0] if isinstance(answer, list) else answer
    measured = operation.get("measured")
    seconds = measured.get("switch_seconds") if isinstance(measured, Mapping) else None
    if code or not isinstance(seconds, float):
        raise BenchError(f"{QUERY} was not moved: exit code {code}, see {on.directory / 'commands.log'}")
    return seconds


def _turn(on: Stage, traffic: "Popen[bytes]", cluster: str) -> "Popen[bytes]":
    """From now on records are written to this cluster, and copied to the other one."""
    on.stop(traffic)
    time.sleep(_COPIED_SECONDS)
    on.lab("turn")
    traffic = on.start_traffic(cluster, RATE, 3600)
    await_batches(on, (QUERY,), more=_BATCHES)
    return traffic


def _rows(taken: Taken) -> list[Row]:
    without = Spread.of(taken.switches["without"])
    note = (
        f"{PAGES} pages, half of them the overview and half a query's; {max(taken.followers)} follow the history, the "
        f"others fetch each 10 s. {taken.fetches:,} fetches, {taken.refused} refused. From the record of the decision "
        f"to the first commit on the other cluster, under {RATE:,} records/s; both clusters are alive."
    )
    return [
        Row(
            measurement=NAME, what=f"decision to first commit, {PAGES} pages open", unit="s",
            ours=Spread.of(taken.switches["with"]), limit=multiple(TIMES, without),
            others=(Other(name="no page open", spread=without),), note=note,
        ),
        Row(
            measurement=NAME, what=f"memory of the controller, {PAGES} pages open", unit="MB",
            ours=Spread.of(taken.megabytes["with"]), limit=MEGABYTES,
            others=(Other(name="no page open", spread=Spread.of(taken.megabytes["without"])),),
        ),
        Row(
            measurement=NAME, what="a page is fetched, the slowest but 1 of 100", unit="s",
            ours=Spread.of(taken.answers), limit=ANSWER_SECONDS,
        ),
    ]  # fmt: skip
