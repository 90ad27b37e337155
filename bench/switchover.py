"""The pause of a query in a switchover, beside Spark's own restart of the same query.

One world of two clusters, MirrorMaker 2 and load, and one runner, warmed up, with one query with state, or with three
queries that go at once. A round restarts the queries the plain way (``bench.restarting_runner``: ``stop()`` and
``start()`` of Spark with the same checkpoint, under the same load, in the same JVM). Then it switches them over. Then
the load ends, replication is reversed, and the next round goes the other way.

Both figures are read off the checkpoints, by the times of the files in ``commits``. *Pause*: from the last batch that
was committed on the old cluster to the first batch with data that was committed on the new one. *Restart*: from the
call of ``stop()`` to the first batch with data behind the call of ``start()``. So what a query waits between two
triggers is in the pause, and not in the restart.

Beside both is the time between two commits when nothing is done. The pause of a move by ``switch`` is held against
that, for it neither stops nor starts anything. The round ``switchover-carry`` moves one query by ``carry``, and its
pause is held against the restart.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from subprocess import Popen
from typing import Any

from bench.errors import BenchError
from bench.report import STEPS, Other, Row
from bench.restarting_runner import DONE, DOOR, ORDERED
from bench.samples import Spread, multiple
from bench.setting import Setting
from lab.configuration import changing
from lab.scenario import Script, open_world
from lab.stage import Stage, await_running, stage
from streaming.spark.checkpoint.log_text import parse_offset_entry

NAME, NAME_OF_THREE, NAME_OF_CARRY = "switchover", "switchover-three", "switchover-carry"
TIMES = 1.5
"""The pause may be this many times the restart, where a run is stopped and another one started."""
TIMES_ORDINARY = 1.25
"""It may be this many times what passes between two commits anyhow, where the run continues."""
ROUNDS = 10
RATE = 2000
LATEST_BEGIN_SECONDS = 330.0
"""So long after the start of the runner no round is begun any more: all of it stays within minutes."""
ONE = ("revenue",)
THREE = ("revenue", "orders", "archive")
_WARM_BATCHES = 20
_WARM_SECONDS = 300.0
BATCHES = 4
"""Between one stop and the next."""
_COMMIT_SECONDS = 60.0
_COPIED_SECONDS = 2.0
_LOOK_SECONDS = 0.05

Places = Mapping[str, Path]
"""Where the checkpoint of each query is."""
Declared = Mapping[str, Any]
"""A query, or what a query is changed into."""
NOTHING: Mapping[str, str] = {}


def _parts(samples: Sequence[float], count: int) -> Iterator[Sequence[float]]:
    """So many parts of equal length, one behind the other."""
    length = len(samples) // count
    return (samples[at : at + length] for at in range(0, length * count, length))


@dataclass
class Taken:
    """What was measured, in seconds, one for each query and round."""

    pauses: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    ordinary: list[float] = field(default_factory=list)
    """From one commit to the next, while the query was left alone."""
    parts: dict[str, list[float]] = field(default_factory=dict)
    """By step of the operation, how long it took."""
    queries: int = 1
    """That went at once: so many pauses, and so many restarts, are of one round."""

    def of_each_round(self, which: Callable[[Sequence[float]], float]) -> "Taken":
        """One pause, one restart and one time between two commits of each round."""
        rounds = len(self.pauses) // self.queries
        pauses, restarts, ordinary = (
            [which(part) for part in _parts(each, rounds)] for each in (self.pauses, self.restarts, self.ordinary)
        )
        return replace(self, pauses=pauses, restarts=restarts, ordinary=ordinary)


def measure(setting: Setting) -> list[Row]:
    """Of one query. Raises BenchError."""
    return _measure(setting, NAME, "one query", ONE)


def measure_three(setting: Setting) -> list[Row]:
    """Of three queries that go at once. Raises BenchError."""
    return _measure(setting, NAME_OF_THREE, "three queries at once", THREE)


def measure_carry(setting: Setting) -> list[Row]:
    """Of one query, by ``carry``. Raises BenchError."""
    return _measure(setting, NAME_OF_CARRY, "one query, resume: carry", ONE, resume="carry")


def _measure(setting: Setting, name: str, what: str, queries: Sequence[str], resume: str = "auto") -> list[Row]:
    with stage(setting.directory, setting.say) as on:
        opened = open_restartable(on, setting.base_port, queries, lambda query: {**query, "resume": resume})
        taken = play(on, opened, setting.count(ROUNDS))
        on.stop(opened.runner)
        return [row(name, what, taken, goes_on=resume != "carry")]


def row(name: str, what: str, taken: Taken, *, goes_on: bool) -> Row:
    """The measurement as a line of the report; the figure to reach is a multiple of one of those beside it.

    ``goes_on``: the run is neither stopped nor started.
    """
    restarts, ordinary = Spread.of(taken.restarts), Spread.of(taken.ordinary)
    if goes_on:
        times, beside = TIMES_ORDINARY, ordinary
        reach = f"{times:g} times what passes between two commits when nothing is done, for the run continues"
    else:
        times, beside = TIMES, restarts
        reach = f"{times:g} times Spark's own restart, from stop() to the first commit with data, in the same JVM"
    return Row(
        measurement=name, what=f"pause, {what}", unit="s", ours=Spread.of(taken.pauses),
        limit=multiple(times, beside),
        others=(
            Other(name="stop() and start() of the same queries", spread=restarts),
            Other(name="between two commits, when nothing is done", spread=ordinary),
        ),
        note=(
            "Last batch committed on the old cluster to the first with data committed on the new one, both alive, under"
            f" {RATE:,} records/s. Reach: {reach}."
        ),
        detail={STEPS: {step: round(median(each), 3) for step, each in taken.parts.items()}},
    )  # fmt: skip


def commits(checkpoint: Path) -> dict[int, float]:
    """When each batch of a checkpoint was committed, by batch, in seconds since 1970."""
    found: dict[int, float] = {}
    for path in (checkpoint / "commits").glob("[0-9]*"):
        with suppress(FileNotFoundError):  # Spark keeps the last hundred
            found[int(path.name)] = path.stat().st_mtime
    return found


def gaps(checkpoint: Path, count: int) -> list[float]:
    """Of the newest batches, the seconds from each commit to the next."""
    newest = [at for _, at in sorted(commits(checkpoint).items())][-count:]
    return [later - earlier for earlier, later in pairwise(newest)]


def has_data(checkpoint: Path, batch: int) -> bool:
    """Whether a batch ends elsewhere than the one before it; the first of a checkpoint has none before it."""
    if batch == 0:
        return True
    ends = [
        parse_offset_entry(path.read_bytes(), str(path)).sources
        for path in (checkpoint / "offsets" / str(number) for number in (batch - 1, batch))
    ]
    return ends[0] != ends[1]


def first_data(checkpoint: Path, *, after: int, since: float = 0.0) -> float | None:
    """When the first batch with data behind a batch, and committed since a time, was committed; None until it was."""
    found = commits(checkpoint)
    for batch in sorted(each for each, at in found.items() if each > after and at >= since):
        if has_data(checkpoint, batch):
            return found[batch]
    return None


def leave_alone(
    config: Path,
    queries: Sequence[str],
    changed: Callable[[Declared], Declared] = dict,
    conf: Mapping[str, str] = NOTHING,
) -> Places:
    """Leave only these queries in a configuration, each as it is changed; where their checkpoints begin.

    ``conf``: settings of Spark, on top of those that are there.
    """
    with changing(config) as declared:
        declared["spark"]["conf"] |= conf
        declared["queries"] = {name: dict(changed(declared["queries"][name])) for name in queries}
    return {name: Path(query["checkpoint"]) for name, query in declared["queries"].items()}


@dataclass(frozen=True)
class Opened:
    """Queries that run on east under load, in a runner that restarts them on request."""

    places: Places
    runner: "Popen[bytes]"
    traffic: "Popen[bytes]"


def open_restartable(
    on: Stage,
    base_port: int,
    queries: Sequence[str],
    changed: Callable[[Declared], Declared],
    *,
    rate: int = RATE,
    conf: Mapping[str, str] = NOTHING,
    within: float = _WARM_SECONDS,
) -> Opened:
    """Begin a world with these queries alone, warmed up."""
    open_world(on, Script(base_port=base_port))
    return run_restartable(on, leave_alone(on.config, queries, changed, conf), rate=rate, within=within)


def run_restartable(on: Stage, places: Places, *, rate: int, within: float = _WARM_SECONDS) -> Opened:
    """Start a runner that restarts its queries on request, and the load; returns once all is warmed up."""
    on.environment[DOOR] = str(on.directory)
    runner = on.start("runner-a", "bench.restarting_runner", "-c", str(on.config), "run", "--name", "a")
    traffic = on.start_traffic("east", rate, 3600)
    await_running(on, runner, batches=_WARM_BATCHES, warm=True, timeout=within)
    return Opened(places, runner, traffic)


def play(on: Stage, opened: Opened, rounds: int, *, rate: int = RATE) -> Taken:
    """Restart the queries and switch them over, round by round. Raises BenchError."""
    taken, here, there, began = Taken(queries=len(opened.places)), "east", "west", time.monotonic()
    places, traffic = opened.places, opened.traffic
    for number in range(rounds):
        taken.restarts += restart(on, places)
        await_more(on, places)
        taken.ordinary += [gap for place in places.values() for gap in gaps(place, BATCHES)]
        places = _switch_over(on, places, there, taken)
        _show(on, f"round {number + 1} of {rounds}", taken, len(places))
        if number + 1 == rounds or time.monotonic() > began + LATEST_BEGIN_SECONDS:
            break
        here, there = there, here
        traffic = _turn(on, traffic, here, rate)
        await_more(on, places)
    return taken


def _turn(on: Stage, traffic: "Popen[bytes]", cluster: str, rate: int) -> "Popen[bytes]":
    """From now on records are written to this cluster, and copied to the other one."""
    on.stop(traffic)
    time.sleep(_COPIED_SECONDS)
    on.lab("turn")
    return on.start_traffic(cluster, rate, 3600)


def restart(on: Stage, places: Places) -> list[float]:
    """Stop and start the queries the plain way; of each, the seconds from there to its first commit with data."""
    (on.directory / ORDERED).touch()
    done = on.directory / DONE
    await_until(on, done.exists, "the queries were not restarted")
    times = json.loads(done.read_text(encoding="ascii"))
    done.unlink()
    return [await_data(on, place, after=-1, since=times["start"]) - times["stop"] for place in places.values()]


def _switch_over(on: Stage, places: Places, to: str, taken: Taken) -> Places:
    """Move the queries; where their checkpoints are then."""
    operations = moved(on, places, "switchover", *places, "--to", to)
    after = {query: _made(operation) for query, operation in operations.items()}
    for query, place in places.items():
        last = operations[query]["plan"]["batch"]
        taken.pauses.append(await_data(on, after[query], after=last) - commits(place)[last])
        for name, seconds in parts(operations[query]).items():
            taken.parts.setdefault(name, []).append(seconds)
    return after


def moved(on: Stage, places: Places, *words: str) -> Mapping[str, Mapping[str, Any]]:
    """Type what moves these queries; by query the operation that did. Raises BenchError where one was not moved."""
    code, printed = on.tideover(*words, "--yes", "--reason", "bench", "-o", "json", check=False)
    answer = json.loads(printed)
    operations = {each["query"]: each for each in (answer if isinstance(answer, list) else [answer])}
    if code or operations.keys() != places.keys():
        raise BenchError(f"not every query was moved: exit code {code}, see {on.directory / 'commands.log'}")
    return operations


def _made(operation: Mapping[str, Any]) -> Path:
    """The checkpoint that an operation committed to."""
    return Path(next(step["detail"]["checkpoint"] for step in operation["steps"] if step["name"] == "commit"))


def parts(operation: Mapping[str, Any]) -> dict[str, float]:
    """By step of an operation, its seconds; what is still open, or was never timed, is left out."""
    return {
        step["name"]: (_instant(step["ended_at"]) - _instant(step["started_at"])).total_seconds()
        for step in operation["steps"]
        if step.get("ended_at")
    }


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def await_more(on: Stage, places: Places, batches: int = BATCHES, seconds: float = _COMMIT_SECONDS) -> None:
    """Until so many batches more are committed in each checkpoint.

    By the files: a command's process costs what is measured.
    """
    reached = {place: newest(place) + batches for place in places.values()}
    await_until(on, lambda: all(newest(place) >= each for place, each in reached.items()), "no batches", seconds)


def newest(checkpoint: Path) -> int:
    """The newest batch that was committed; -1 before the first."""
    return max(commits(checkpoint), default=-1)


def await_data(
    on: Stage, checkpoint: Path, *, after: int, since: float = 0.0, seconds: float = _COMMIT_SECONDS
) -> float:
    """When the first batch with data behind a batch was committed, once it is. Raises BenchError."""
    found: list[float] = []

    def holds() -> bool:
        at = first_data(checkpoint, after=after, since=since)
        found.extend([] if at is None else [at])
        return bool(found)

    await_until(on, holds, f"no batch with data was committed in {checkpoint}", seconds)
    return found[0]


def await_until(on: Stage, holds: Callable[[], bool], otherwise: str, seconds: float = _COMMIT_SECONDS) -> None:
    """Look until it holds. Raises BenchError, which says what was not so."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise BenchError(f"{otherwise} within {seconds:g} s: see {on.directory}")
        time.sleep(_LOOK_SECONDS)


def _show(on: Stage, what: str, taken: Taken, count: int) -> None:
    pauses, restarts = taken.pauses[-count:], taken.restarts[-count:]
    steps = ", ".join(f"{name} {each[-1]:.2f}" for name, each in taken.parts.items())
    on.say(
        f"{what}: pause {', '.join(f'{each:.2f}' for each in pauses)} s;"
        f" restart {', '.join(f'{each:.2f}' for each in restarts)} s; {steps}"
    )
