"""What a drill costs production: the batches of a query while a drill of it is under way, and while none is.

One world of two clusters, MirrorMaker 2 and load, and one runner that hosts one query with state, warmed up. A pair is
a drill, and a while as long without one, next to each other. Every second pair runs the other way round, so that a
slow drift of the machine falls on both. A batch lasts from its entry in ``offsets`` to its entry in ``commits``, by the
times of the files; it belongs to the while in which it began. The start of the command's process comes before the
drill, and is in neither.
"""

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread, paired_percent
from bench.setting import Setting
from bench.switchover import leave_alone
from lab.scenario import Script, open_world
from lab.stage import Stage, await_running, stage

NAME = "drill"
LIMIT_PERCENT = 5.0
PAIRS = 10
QUERY = "revenue"
RATE = 2000
LATEST_BEGIN_SECONDS = 240.0
"""So long after the first pair began no other one does: all of it stays within minutes."""
_WARM_BATCHES = 30
_REST_SECONDS = 2.0
"""Between two whiles."""
_USUAL_SECONDS = 5.0
"""Without a drill, before the first one has shown how long it takes."""


@dataclass
class Taken:
    """Batches of both kinds of while, in milliseconds; one list for each while."""

    without: list[list[float]] = field(default_factory=list)
    with_it: list[list[float]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """How long each drill took."""


def measure(setting: Setting) -> list[Row]:
    """Take all pairs in one world. Raises BenchError where a drill proves nothing."""
    taken, pairs = Taken(), setting.count(PAIRS)
    with stage(setting.directory, setting.say) as on:
        open_world(on, Script(base_port=setting.base_port))
        checkpoint = leave_alone(on.config, [QUERY])[QUERY]
        runner = on.start_runner()
        on.start_traffic("east", RATE, 3600)
        await_running(on, runner, batches=_WARM_BATCHES, warm=True)
        began = time.monotonic()
        for number in range(pairs):
            for with_it in (True, False) if number % 2 == 0 else (False, True):
                time.sleep(_REST_SECONDS)
                _take(on, checkpoint, taken, with_it=with_it)
            setting.say(f"pair {number + 1} of {pairs}: {_said(taken)}")
            if time.monotonic() > began + LATEST_BEGIN_SECONDS:
                break
        on.stop(runner)
    return rows(taken)


def rows(taken: Taken) -> list[Row]:
    """The measurement as lines of the report."""
    pairs = [(without, with_it) for without, with_it in zip(taken.without, taken.with_it, strict=True)]
    whole = [(without, with_it) for without, with_it in pairs if without and with_it]
    note = (
        "Pair by pair of neighbouring whiles of the same length, under"
        f" {RATE:,} records/s, on one host with both clusters and the replicator."
    )
    lines = []
    for what, limit, pick in (("median batch", LIMIT_PERCENT, statistics.median), ("longest batch", None, max)):
        without, with_it = [pick(each) for each, _ in whole], [pick(each) for _, each in whole]
        lines.append(
            Row(
                measurement=NAME, what=f"a drill under way: extra time of the {what}", unit="%",
                ours=Spread.of(paired_percent(without, with_it)), limit=limit,
                others=(
                    Other(name=f"{what} with a drill", spread=Spread.of(with_it), unit="ms"),
                    Other(name=f"{what} without", spread=Spread.of(without), unit="ms"),
                    Other(name="the drill itself", spread=Spread.of(taken.seconds), unit="s"),
                ),
                note=note, detail={"batches": sum(len(each) for pair in whole for each in pair)},
            )
        )  # fmt: skip
    return lines


def batches(checkpoint: Path, begin: float, end: float) -> list[float]:
    """How long each batch took that began between two times and is committed, in milliseconds."""
    took = []
    for planned in sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)):
        began, committed = planned.stat().st_mtime, checkpoint / "commits" / planned.name
        if begin <= began < end and committed.exists():
            took.append((committed.stat().st_mtime - began) * 1000)
    return took


def _take(on: Stage, checkpoint: Path, taken: Taken, *, with_it: bool) -> None:
    if with_it:
        begin, end = _drill(on)
        taken.seconds.append(end - begin)
    else:
        begin = time.time()
        time.sleep(taken.seconds[-1] if taken.seconds else _USUAL_SECONDS)
        end = time.time()
    time.sleep(_REST_SECONDS)  # the last batch that began is committed by then
    (taken.with_it if with_it else taken.without).append(batches(checkpoint, begin, end))


def _drill(on: Stage) -> tuple[float, float]:
    """Rehearse the failover; when the drill began and ended."""
    code, printed = on.tideover("drill", QUERY, "-o", "json", check=False)
    answer = json.loads(printed)
    drill = answer[0] if isinstance(answer, list) else answer
    if code or drill.get("outcome") != "done":
        raise BenchError(f"the drill proved nothing: {printed[-500:]}")
    begin, end = (datetime.fromisoformat(drill[key]).timestamp() for key in ("started_at", "ended_at"))
    return begin, end


def _said(taken: Taken) -> str:
    def each(found: Sequence[Sequence[float]]) -> str:
        return " ".join(f"{took:.0f}" for took in found[-1])

    return f"with {each(taken.with_it)}, without {each(taken.without)} ms, drill {taken.seconds[-1]:.1f} s"
