"""What an application pays that Tideover is attached to: the time of a move, of a batch, and the attendant's memory.

``examples/plain_job.py`` is started as its user does. *Moved*: three kinds of worlds, each with two clusters,
MirrorMaker 2, load, and the application with its two queries. The primary is killed, or frozen, and both queries are
failed over in the running driver. In the third kind the driver is killed with the primary, and its scheduler starts it
again while the failover waits for it. The figure begins when the first operation is recorded. It ends with the first
batch with data that the later query commits on the standby.

*Beside it* run three plain ones, without Tideover. One is started with a new checkpoint, as a team does today: its
state is lost, and it reads the standby from its begin. One is killed and started again with its own checkpoint on a
cluster that never failed: a restarted driver cannot be faster. The time between two commits when nothing is done is the
floor where the run continues.

*A batch*: an application with Tideover and one without read the same topics at the same time, each with its own
folders. A batch lasts from the file in ``offsets`` to that in ``commits``. *Memory* is the attendant's own (PSS: pages
that several processes share count by their share).
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread, multiple, paired_percent
from bench.setting import Setting
from bench.switchover import await_data, await_more, await_until, commits, gaps, newest
from lab.configuration import declaration
from lab.own_job import APPLICATION, ATTENDANT, QUERIES, Shop, can_move, declare
from lab.processes import children
from lab.scenario import Script, open_world
from lab.stage import Stage, stage

NAME = "attachment"
RATE = 2000
JOB = Path("examples/plain_job.py")
MEMORY_LIMIT_MB = 100.0
BATCH_LIMIT_PERCENT = 1.0
TIMES_RESTARTED = 1.5
"""A restarted driver that was moved may take this many times the plain one's restart."""
_KINDS = {
    "running": "both queries, driver runs on",
    "frozen": "both queries, driver runs on, primary frozen",
    "restarted": "both queries, driver killed with the primary and started again",
}
_DECIDE_SECONDS, _FROZEN_SECONDS = 1.0, 3.0
_BATCHES = 40
"""Of each application, in one sample of the time of a batch; Spark keeps the files of the last hundred."""
_PAIRS = 6
_WARM_SECONDS = 20.0
_READY_SECONDS = 400.0
_COMMIT_SECONDS = 120.0


@dataclass
class Taken:
    """What was measured: seconds, percent and megabytes."""

    moves: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    ordinary: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)
    plain_batches: list[float] = field(default_factory=list)
    attached_batches: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


def measure(setting: Setting) -> list[Row]:
    """Three samples of each kind of move, or as many as are requested. Raises BenchError."""
    runs, taken = setting.count(3), Taken()
    with stage(setting.directory / "beside", setting.say) as on:
        _measure_beside(on, setting.base_port, runs, taken)
    for number in range(runs):
        for kind, words in _KINDS.items():
            setting.say(f"world {number + 1} of {runs}, {words}")
            with stage(setting.directory / f"{kind}-{number}", setting.say) as on:
                taken.moves[kind].append(_move(on, setting.base_port, kind))
    return rows(taken)


def _measure_beside(on: Stage, base_port: int, runs: int, taken: Taken) -> None:
    """With and without Tideover at the same time; then the plain one alone, with its checkpoint and with a new one."""
    open_world(on, Script(base_port=base_port))
    bootstrap = declare(on)
    shop = Shop(on, JOB.resolve(), bootstrap, on.world / APPLICATION)
    plain = Shop(on, JOB.resolve(), bootstrap, on.world / "plain", is_attached=False)
    shop.start()
    plain.start()
    traffic = on.start_traffic("east", RATE, 3600)
    await_until(on, partial(can_move, on), "the application could not be moved", _READY_SECONDS)
    time.sleep(_WARM_SECONDS)
    both = {f"{each.out.name} {name}": place for each in (shop, plain) for name, place in _places(each).items()}
    for _ in range(_PAIRS):
        await_more(on, both, _BATCHES, _READY_SECONDS)
        pair = [statistics.median(_lengths(each, _BATCHES)) for each in (shop, plain)]
        taken.attached_batches.append(pair[0])
        taken.plain_batches.append(pair[1])
        taken.memory.append(memory_mb(attendant_of(shop.process.pid)))
        milliseconds = " and ".join(f"{each * 1000:.0f}" for each in pair)
        on.say(f"a batch: {milliseconds} ms with and without; attendant {taken.memory[-1]:.0f} MB")
    on.stop(shop.process)
    for _ in range(runs):
        await_more(on, _places(plain))
        taken.ordinary += [gap for place in _places(plain).values() for gap in gaps(place, 4)]
        plain.process.kill()
        plain.process.wait()
        taken.restarts.append(_started(on, plain))
        on.say(f"restart of the plain application {taken.restarts[-1]:.1f} s")
    on.stop(plain.process)
    on.stop(traffic)
    west = ",".join(declaration(on.config)["clusters"]["west"]["bootstrap"])
    for number in range(runs):
        fresh = Shop(on, JOB.resolve(), west, on.world / f"fresh-{number}", is_attached=False)
        taken.fresh.append(_started(on, fresh))
        on.stop(fresh.process)
        on.say(f"plain application with a new checkpoint {taken.fresh[-1]:.1f} s")


def _places(shop: Shop) -> dict[str, Path]:
    return {name: shop.out / "checkpoints" / name for name in QUERIES}


def _lengths(shop: Shop, count: int) -> list[float]:
    """Of the newest batches of both queries, the seconds from the plan to the commit."""
    found = []
    for place in _places(shop).values():
        committed = sorted(commits(place).items())[-count:]
        found += [at - (place / "offsets" / str(batch)).stat().st_mtime for batch, at in committed]
    return found


def _started(on: Stage, shop: Shop) -> float:
    """Start an application; the seconds from there to the first batch with data of the later query."""
    began, reached = time.time(), {place: newest(place) for place in _places(shop).values()}
    shop.start()
    ended = [
        await_data(on, place, after=batch, since=began, seconds=_COMMIT_SECONDS) for place, batch in reached.items()
    ]
    return max(ended) - began


def _move(on: Stage, base_port: int, kind: str) -> float:
    """Seconds from the decision to the first commit with data of the later query on the standby."""
    open_world(on, Script(base_port=base_port))
    shop = Shop(on, JOB.resolve(), declare(on), on.world / APPLICATION)
    controller = on.start_controller()
    shop.start()
    traffic = on.start_traffic("east", RATE, 3600)
    await_until(on, partial(can_move, on), "the application could not be moved", _READY_SECONDS)
    time.sleep(_WARM_SECONDS)
    on.lab("freeze" if kind == "frozen" else "kill", "east")
    if kind == "restarted":
        shop.process.kill()
        shop.process.wait()
    time.sleep(_FROZEN_SECONDS if kind == "frozen" else _DECIDE_SECONDS)
    words = ("failover", "--all", "--to", "west", "--yes", "--reason", "bench")
    operator = on.start("failover", "orchestrator", "-c", str(on.config), *words)
    if kind == "restarted":
        shop.start()
    code = operator.wait(_COMMIT_SECONDS)
    if code:
        raise BenchError(f"the queries were not moved: exit code {code}, see {on.directory / 'failover.log'}")
    moves = {event["operation"] for event in on.query("history", "--limit", "1000") if event["kind"] == "hold"}
    if len(moves) != len(QUERIES):
        raise BenchError(f"{len(moves)} operations for {len(QUERIES)} queries: see {on.directory / 'failover.log'}")
    found = switched([on.query("show-op", each) for each in sorted(moves)])
    for process in (traffic, shop.process, controller):
        on.stop(process)
    return found


def switched(operations: Sequence[Mapping[str, Any]]) -> float:
    """Seconds from the first decision to the commit on the standby of the query that is last. Raises BenchError."""
    began: list[float] = []
    ended: list[float] = []
    for operation in operations:
        seconds = operation["measured"].get("switch_seconds")
        if seconds is None:
            raise BenchError(f"{operation['query']} was not moved: {operation['outcome']}")
        began.append(datetime.fromisoformat(operation["started_at"]).timestamp())
        ended.append(began[-1] + seconds)
    return max(ended) - min(began)


def attendant_of(driver: int) -> int:
    """The pid of the attendant that a driver started. Raises BenchError."""
    found = children(driver, argument=ATTENDANT)
    if not found:
        raise BenchError(f"the driver with pid {driver} has no attendant")
    return found[0]


def memory_mb(pid: int) -> float:
    """Megabytes of a process; a page that several processes share counts by its share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("Pss:"))
    return int(kilobytes) * 1024 / 1e6


def rows(taken: Taken) -> list[Row]:
    """The lines of the report."""
    ordinary, restart = Spread.of(taken.ordinary), Spread.of(taken.restarts)
    floor = Other(name="between two commits, when nothing is done", spread=ordinary)
    restarted = Other(name="plain restart with its own checkpoint, cluster alive", spread=restart)
    fresh = Other(name="plain spark-submit with a new checkpoint, state lost", spread=Spread.of(taken.fresh))
    lines = [
        Row(
            measurement=NAME, what=f"{words}: decision to first commit of the later", unit="s",
            ours=Spread.of(taken.moves[kind]),
            limit=multiple(TIMES_RESTARTED, restart) if kind == "restarted" else None,
            others=(restarted, fresh) if kind == "restarted" else (floor, fresh),
            note=(
                "From the recorded decision to the first batch with data that the later of two queries commits on the"
                f" standby, under {RATE:,} records/s. The plain ones from the start of their process."
            ),
        )
        for kind, words in _KINDS.items()
    ]  # fmt: skip
    percent = Spread.of(paired_percent(taken.plain_batches, taken.attached_batches)) if taken.memory else None
    seconds = Other(name="a batch without Tideover", spread=Spread.of(taken.plain_batches), unit="s")
    return [
        *lines,
        Row(
            measurement=NAME, what="a batch with Tideover attached takes longer by", unit="%", ours=percent,
            limit=BATCH_LIMIT_PERCENT, others=(seconds,),
            note="Medians of batches of both queries, of two applications that read the same topics at the same time.",
        ),
        Row(
            measurement=NAME, what="memory of the attendant", unit="MB", ours=Spread.of(taken.memory),
            limit=MEMORY_LIMIT_MB, note="Its proportional set size, while two queries run.",
        ),
    ]  # fmt: skip
