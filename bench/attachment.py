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

Before that an application with Tideover and one without run side by side: ``bench.attached_batches``.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench.attached_batches import READY_SECONDS, WARM_SECONDS, Attendance, attendance_rows, measure_batches, places
from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread, multiple
from bench.setting import Setting
from bench.switchover import await_data, await_more, await_until, gaps, newest
from lab.configuration import declaration
from lab.own_job import APPLICATION, QUERIES, Shop, can_move, declare
from lab.scenario import Script, open_world
from lab.stage import Stage, stage

NAME = "attachment"
RATE = 2000
JOB = Path("examples/plain_job.py")
TIMES_RESTARTED = 1.5
"""A restarted driver that was moved may take this many times the plain one's restart."""
_KINDS = {
    "running": "both queries, driver runs on",
    "frozen": "both queries, driver runs on, primary frozen",
    "restarted": "both queries, driver killed with the primary and started again",
}
_DECIDE_SECONDS, _FROZEN_SECONDS = 1.0, 3.0
_COMMIT_SECONDS = 120.0


@dataclass
class Taken:
    """What was measured, in seconds."""

    moves: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    ordinary: list[float] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)
    attendance: Attendance = field(default_factory=Attendance)


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
    traffic = on.start_traffic("east", RATE, 3600)
    measure_batches(on, JOB.resolve(), bootstrap, taken.attendance)
    plain = Shop(on, JOB.resolve(), bootstrap, on.world / "plain", is_attached=False)
    plain.start()
    for _ in range(runs):
        await_more(on, places(plain))
        taken.ordinary += [gap for place in places(plain).values() for gap in gaps(place, 4)]
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


def _started(on: Stage, shop: Shop) -> float:
    """Start an application; the seconds from there to the first batch with data of the later query."""
    began, reached = time.time(), {place: newest(place) for place in places(shop).values()}
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
    await_until(on, partial(can_move, on), "the application could not be moved", READY_SECONDS)
    time.sleep(WARM_SECONDS)
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
    return [*lines, *attendance_rows(NAME, taken.attendance)]
