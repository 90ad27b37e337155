"""How soon a controller sees a cluster die, and what it costs while nothing happens.

One world with two clusters, MirrorMaker 2 and one controller. The primary's broker is killed, or frozen, by a signal
that this process sends itself, so that no command's start is in the figure. The verdict's own time is read from the
history. Then the broker is started, or thawed, and the next round begins when it is believed UP again.

At rest: the same controller, with a topic of 3,500 partitions on both clusters, 20 records in each, on which its one
query runs, from the end of each. So every sample of readiness finds 3,500 places, by time. Memory and processor time of
the controller's process over four minutes, from ``/proc``. Then the query's runner ends.
"""

import json
import os
import signal
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bench import environment
from bench.broker import make_topics, writing
from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread
from bench.setting import Setting
from lab import topics
from lab.configuration import changing, declaration
from lab.scenario import Script, open_world
from lab.stage import Stage, await_running, await_verdicts, stage
from orchestrator.decide.desk.readiness_sampling import SAMPLE_LONGEST

NAME = "watch"
ROUNDS = 10
DOWN_SECONDS = {"kill": 1.5, "freeze": 2.5}
REST_MEGABYTES = 120.0
REST_PERCENT = 2.0
_SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}
_BACK = {"kill": "start", "freeze": "thaw"}
_WIDE_TOPIC = "wide"
_WIDE_PARTITIONS = 3500
_WIDE_RECORDS = 20
"""In each."""
_WIDE_SECONDS = 600.0
"""For them to be written, copied, and read by a query."""
_VERDICT_SECONDS = 60.0
_SETTLE_SECONDS = 15.0
_REST_SECONDS = SAMPLE_LONGEST.total_seconds()
"""A whole round of what a controller does now and then: a shorter while would have all of it or nothing."""


def measure(setting: Setting) -> list[Row]:
    """Take all figures in one world."""
    took: dict[str, list[float]] = {fault: [] for fault in _SIGNALS}
    with stage(setting.directory / "world", setting.say) as on:
        open_world(on, Script(base_port=setting.base_port))
        _declare_wide(on)
        runner = on.start_runner()
        await_running(on, runner, batches=1, warm=True, timeout=_WIDE_SECONDS)
        controller = on.start_controller()
        await_verdicts(on)
        _await_ready(on)
        megabytes, percent = _at_rest(controller.pid)
        on.stop(runner)
        setting.say(f"at rest: {megabytes:.0f} MB, {percent:.1f} % of a core")
        for number in range(ROUNDS):
            for fault in _SIGNALS:
                took[fault].append(_strike(on, fault))
                setting.say(f"round {number + 1} of {ROUNDS}, {fault}: DOWN after {took[fault][-1]:.2f} s")
        on.stop(controller)
    return [*(_detected(fault, seconds) for fault, seconds in took.items()), *_rested(megabytes, percent)]


def _declare_wide(on: Stage) -> None:
    """One query that reads a topic of many partitions, and records in it on both clusters."""
    addresses = {name: cluster["bootstrap"] for name, cluster in declaration(on.config)["clusters"].items()}
    for bootstrap in addresses.values():
        make_topics(bootstrap[0], {_WIDE_TOPIC: _WIDE_PARTITIONS})
    # 3,500 partitions of one broker on few cores: some answers take longer than a query in production should wait
    patient = {
        "kafkaConsumer.pollTimeoutMs": "20000",
        "kafka.request.timeout.ms": "20000",
        "kafka.default.api.timeout.ms": "30000",
    }
    source = {"topics": [_WIDE_TOPIC], "options": patient, "starting": "latest"}  # all would take minutes
    with changing(on.config) as declared:
        name, query = next(iter(declared["queries"].items()))
        declared["queries"] = {name: {**query, "sources": {"orders": source}, "trigger": "10s"}}
        declared["spark"]["master"] = "local[2]"  # a slot each would let readers wait for each other too long
    _fill(addresses["east"][0])
    deadline = time.monotonic() + _WIDE_SECONDS
    while (there := sum(topics.ends(addresses["west"], _WIDE_TOPIC).values())) < _WIDE_PARTITIONS * _WIDE_RECORDS:
        if time.monotonic() > deadline:
            raise BenchError(f"only {there:,} records were copied within {_WIDE_SECONDS:g} s: see {on.directory}")
        time.sleep(1.0)


def _fill(bootstrap: str) -> None:
    begun_ms = int(time.time() * 1000)
    with writing(bootstrap) as put:
        for turn in range(_WIDE_RECORDS):
            for partition in range(_WIDE_PARTITIONS):
                order = {"id": turn * _WIDE_PARTITIONS + partition, "amount": 100, "at_ms": begun_ms + turn}
                put(_WIDE_TOPIC, partition, json.dumps(order).encode(), begun_ms + turn)


def _await_ready(on: Stage) -> None:
    """Until the query could move: a sample of readiness has found all its places."""
    deadline = time.monotonic() + _WIDE_SECONDS
    while on.tideover("check", check=False)[0] != 0:
        if time.monotonic() > deadline:
            raise BenchError(f"the query was not ready within {_WIDE_SECONDS:g} s: see {on.directory}")
        time.sleep(2.0)


def _strike(on: Stage, fault: str) -> float:
    """Seconds from the signal to the verdict DOWN, by the history's own time of it."""
    broker = _pid_of(on, "east-1")
    before = _newest(on)
    struck_at = time.time()
    os.kill(broker, _SIGNALS[fault])
    down = _await_verdict(on, "DOWN", before)
    on.lab(_BACK[fault], "east")
    _await_verdict(on, "UP", down["sequence"])
    return datetime.fromisoformat(down["at"]).timestamp() - struck_at


def _pid_of(on: Stage, part: str) -> int:
    parts = json.loads(on.lab("status", "-o", "json"))["parts"]
    return int(next(each["pid"] for each in parts if each["name"] == part))


def _newest(on: Stage) -> int:
    return max((int(event["sequence"]) for event in on.query("history")), default=0)


def _await_verdict(on: Stage, verdict: str, after: int) -> Mapping[str, Any]:
    """The event in which the controller first says so of the primary."""
    deadline = time.monotonic() + _VERDICT_SECONDS
    while time.monotonic() < deadline:
        for event in on.query("history"):
            if event["sequence"] > after and event["text"].startswith(f"east is {verdict}:"):
                return dict(event)
        time.sleep(0.5)  # each look is a process of its own
    raise BenchError(f"east was not believed {verdict} within {_VERDICT_SECONDS:g} s: see {on.directory}")


def _at_rest(pid: int) -> tuple[float, float]:
    """Resident megabytes and percent of one core of a process, over a while in which nothing happens."""
    time.sleep(_SETTLE_SECONDS)
    before, began = environment.spent_seconds(pid), time.monotonic()
    time.sleep(_REST_SECONDS)
    percent = 100 * (environment.spent_seconds(pid) - before) / (time.monotonic() - began)
    return environment.megabytes(pid), percent


def _detected(fault: str, seconds: list[float]) -> Row:
    note = "From the signal to the verdict DOWN in the history, default detection (3 looks, every 500 ms, 1 s each)."
    worst = Other(name=f"the slowest of {len(seconds)}", spread=Spread.of([max(seconds)]))
    return Row(
        measurement=NAME, what=f"{fault} of the primary to DOWN", unit="s", ours=Spread.of(seconds),
        limit=DOWN_SECONDS[fault], others=(worst,), note=note,
    )  # fmt: skip


def _rested(megabytes: float, percent: float) -> list[Row]:
    note = (
        f"One controller, two clusters, one query that runs and is ready, {_WIDE_PARTITIONS:,} partitions watched on "
        f"each, over {_REST_SECONDS:g} s."
    )
    return [
        Row(
            measurement=NAME, what="controller at rest: memory", unit="MB", ours=Spread.of([megabytes]),
            limit=REST_MEGABYTES, note=note,
        ),
        Row(
            measurement=NAME, what="controller at rest: share of a core", unit="%", ours=Spread.of([percent]),
            limit=REST_PERCENT, note=note,
        ),
    ]  # fmt: skip
