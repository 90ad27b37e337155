"""One whole test run on real parts: world up, queries running, load, fault, failover, verdict.

The demo plays it once for a person, the tests play it many times with assertions. Everything is done as a user would do
it, through the two command lines, each in a process of its own; nothing is imported from the product. A run leaves
its directory behind (logs, sinks, store), so that a verdict can be looked at again.
"""

import json
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from subprocess import Popen
from typing import Any, Literal

from lab.configuration import changing
from lab.homecoming import Homecoming, carried_of, come_home
from lab.stage import (
    GRACE_SECONDS,
    Say,
    ScenarioFailed,
    Stage,
    TooSlow,
    await_running,
    await_spare,
    await_verdicts,
    stage,
)

Fault = Literal["kill", "freeze"]
Resume = Literal["auto", "carry", "switch"]
SPARE = "b"
"""The runner that stands by."""
_MOVED_SECONDS = 180.0
"""An attempt that a gate refuses behind the fence is made again after a minute (``decide.gates.automatic``). On a
busy machine each of the two may last for tens of seconds."""
_KEEPS_UP_SECONDS = 120.0
_SLOW_SECONDS = 45.0
"""How long a rate may be too high before a lower one is tried."""
_LOWEST_RATE = 100
_MOST_BEHIND_SECONDS = 10.0
"""How old the standby's copies may be when the primary is killed: a replicator that keeps up is under 2 s."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """What shall happen, and when."""

    fault: Fault = "kill"
    rate: int = 2000
    """Records per second."""
    lowers_rate: bool = False
    """Half of the rate, again and again, where the machine does not replicate and read that many in time."""
    calm_seconds: float = 8.0
    """Load on the primary, once all queries commit what it sends, before the fault strikes. A plan is made during that
    time, and may take longer."""
    decide_seconds: float = 1.0
    """From the fault to the moment the operator types the failover."""
    after_seconds: float = 4.0
    """Load on the standby after the move."""
    base_port: int = 19092
    kafka: str = "4.3.1"
    brokers: int = 1
    wait_warm: bool = True
    secured: str | None = None
    """How, if at all: ``lab.world.SECURED``."""
    resume: Resume = "carry"
    """How the queries resume that have exact offsets: from a copy of their checkpoint, or from the checkpoint itself;
    ``auto`` as everywhere."""
    loses_driver: bool = False
    """The fault takes the runner of all queries too; a warm one takes over."""
    automatic: bool = False
    """A controller watches and moves the queries automatically."""
    shows_desk: bool = False
    """A controller serves its page, and a person with its token may act there."""
    returns: bool = False
    """The primary comes up again, replication is reversed, and the carried queries move back under load."""

    @classmethod
    def at_random(cls, seed: int, *, fault: Fault, base_port: int, wait_warm: bool) -> "Script":
        """A script whose moments are drawn from the seed: the fault strikes anywhere in a batch."""
        draw = random.Random(seed)
        return cls(
            fault=fault,
            calm_seconds=draw.uniform(5.0, 9.0),
            decide_seconds=draw.uniform(0.3, 4.0),
            base_port=base_port,
            wait_warm=wait_warm,
        )


@dataclass(frozen=True, kw_only=True)
class Played:
    """What happened."""

    script: Script
    plan: Sequence[Mapping[str, Any]]
    operations: Sequence[Mapping[str, Any]]
    """``show-op -o json`` of each query's operation."""
    verdict: Mapping[str, Mapping[str, Any]]
    """``python -m lab verify -o json``."""
    failover_exit: int
    fault_to_first_commit_seconds: Mapping[str, float | None]
    fault_to_verdict_seconds: float | None = None
    """Until the controller called the cluster DOWN, by its own record; None where none watched."""
    events: Sequence[Mapping[str, Any]] = ()
    """``history -o json`` from the fault on, oldest first."""
    home: Homecoming | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long the parts of the run took."""

    def operation(self, query: str) -> Mapping[str, Any]:
        """The operation that moved a query."""
        return next(operation for operation in self.operations if operation["query"] == query)


def play_script(
    script: Script,
    directory: Path,
    say: Say = lambda _: None,
    stay: Callable[[Stage, Played], None] = lambda on, played: None,
) -> Played:
    """Play the script once, from an empty directory to the verdict; ``stay`` is called before all of it ends."""
    with stage(directory, say) as on:
        watch = _Stopwatch()
        open_world(on, script)
        declare(on.config, script)
        watch.mark("world_up")
        runner, traffic, spare = bring_up_queries(on, script)
        watch.mark("queries_running")
        calm_until = time.monotonic() + script.calm_seconds
        if script.lowers_rate:
            script, traffic, plan = paced(on, script, traffic)
        else:
            plan = foreseen(on)
        time.sleep(max(0.0, calm_until - time.monotonic()))
        say(f"{script.fault} east, under {script.rate:,} records/s")
        struck_at = _at(on.lab(script.fault, "east").strip())
        if script.loses_driver:
            say("the driver of all queries dies with it")
            runner.kill()
        watch.mark("struck")
        code, identities = (_watch_it if script.automatic else _type_it)(on, script, struck_at)
        watch.mark("failover")
        on.stop(traffic)
        after = on.start_traffic("west", script.rate, script.after_seconds)
        after.wait(script.after_seconds + GRACE_SECONDS)
        verdict = json.loads(on.lab("verify", "--wait", "60", "-o", "json"))
        watch.mark("verdict")
        operations = [on.query("show-op", identity) for identity in identities]
        events = [event for event in on.query("history", "--limit", "1000") if _at(event["at"]) >= struck_at]
        home = come_home(on, carried_of(operations), rate=script.rate, fault=script.fault) if script.returns else None
        if home is not None:
            watch.mark("way_home")
        played = Played(
            script=script,
            plan=plan,
            operations=operations,
            verdict=verdict,
            failover_exit=code,
            fault_to_first_commit_seconds={op["query"]: first_commit_after(op, struck_at) for op in operations},
            fault_to_verdict_seconds=verdict_after(events, struck_at),
            events=events,
            home=home,
            seconds=watch.seconds,
        )
        stay(on, played)
        on.stop(spare or runner)
        return played


def bring_up_queries(on: Stage, script: Script) -> tuple["Popen[bytes]", "Popen[bytes]", "Popen[bytes] | None"]:
    """Start what the script wants, and wait until its queries commit under load; the runner, the traffic, the spare."""
    runner = on.start_runner()
    if script.shows_desk:
        on.say(f"look at it: {give_token(on)}")
    if script.automatic or script.shows_desk:
        on.start_controller()
    warms = ", and warms up" if script.wait_warm else ""
    on.say(f"runner a starts Spark, and in it all queries of the example{warms}")
    await_running(on, runner, warm=script.wait_warm)
    on.say(f"{script.rate:,} records/s to east")
    traffic = on.start_traffic("east", script.rate, 600)
    await_running(on, runner, batches=2)  # the first may have been empty
    spare = on.start_runner(SPARE) if script.loses_driver else None
    if spare is not None:
        await_spare(on, spare, SPARE, warm=script.wait_warm)
    if script.automatic:
        await_verdicts(on)
    return runner, traffic, spare


def paced(
    on: Stage, script: Script, traffic: "Popen[bytes]", within: float = _SLOW_SECONDS
) -> tuple[Script, "Popen[bytes]", list[Mapping[str, Any]]]:
    """The script with the rate that this machine keeps up with, the producers at that rate, and the plans.

    Raises TooSlow where the lowest rate is too high.
    """
    while True:
        try:
            return script, traffic, foreseen(on, within, most_behind=_MOST_BEHIND_SECONDS)
        except TooSlow as reason:
            lower = script.rate // 2
            if lower < _LOWEST_RATE:
                raise TooSlow(f"this machine does not keep up with {script.rate:,} records/s: {reason}") from reason
            on.say(f"{script.rate:,} records/s are too many for this machine: {reason}; {lower:,} records/s instead")
            script = replace(script, rate=lower)
            on.stop(traffic)
            traffic = on.start_traffic("east", script.rate, 600)


def foreseen(
    on: Stage, within: float = _KEEPS_UP_SECONDS, *, most_behind: float | None = None
) -> list[Mapping[str, Any]]:
    """The plans of a failover of all queries, as soon as none is refused.

    On a busy machine a query may lag so far that it could not be moved (``repeats-into-state``): there is nothing to
    rehearse yet. With ``most_behind`` the standby's copies must be that young, in seconds, too. Raises TooSlow where
    that stays so for ``within`` seconds.
    """
    refused: list[str] = []
    deadline = time.monotonic() + within
    while not refused or time.monotonic() < deadline:
        code, printed = on.tideover("plan", "failover", "--all", "--to", "west", "-o", "json", check=False)
        if code not in {0, 1}:
            raise ScenarioFailed(f"tideover plan ended with exit code {code}: see commands.log")
        plans: list[Mapping[str, Any]] = json.loads(printed)
        refused = [f"{plan['query']}: {gate['text']}" for plan in plans for gate in plan["gates"] if not gate["ok"]]
        refused += [] if most_behind is None else _behind(plans, most_behind)
        if not refused:
            return plans
    raise TooSlow(f"for {within:g} s a failover would have been refused: {'; '.join(refused)}")


def _behind(plans: Sequence[Mapping[str, Any]], most: float) -> list[str]:
    """By how much the standby's copies are too old, in a sentence; nothing is said of an age that is unknown."""
    ages = [age for plan in plans if (age := plan["totals"]["exposure_seconds"]) is not None]
    return (
        [f"the standby's copies are {max(ages):.0f} s old, and the limit is {most:g} s"]
        if max(ages, default=0.0) > most
        else []
    )


def _type_it(on: Stage, script: Script, struck_at: float) -> tuple[int, list[str]]:
    """An operator types the failover, some time after the fault; its exit code and operations."""
    time.sleep(max(0.0, struck_at + script.decide_seconds - time.time()))
    on.say("tideover failover --all --to west --yes")
    return on.move("failover", "--all", "--to", "west", "--reason", f"rehearsal: {script.fault}")


def _watch_it(on: Stage, _: Script, struck_at: float) -> tuple[int, list[str]]:
    """The controller moves automatically: wait until every query has left, each by one operation."""
    on.say("no command is typed; the controller acts")
    while time.time() < struck_at + _MOVED_SECONDS:
        rows = on.query("list")
        if all(row["cluster"] == "west" and row["operation"] is None for row in rows):
            held = {event["query"]: event["operation"] for event in on.query("history", "--kind", "hold")}
            return 0, [held[row["query"]] for row in rows]
        time.sleep(0.5)
    reported = "\n".join(
        f"{each['at']} {each['query'] or ''} {each['kind']}: {each['text']}" for each in on.query("history")
    )
    raise ScenarioFailed(f"not every query was moved within {_MOVED_SECONDS:g} s; the history says\n{reported}")


def declare(config: Path, script: Script) -> None:
    """Let the configuration say what the script wants otherwise than the lab."""
    with changing(config) as declared:
        if script.automatic:
            declared["policy"] = {"automatic": True}
        for query in declared["queries"].values():
            query.setdefault("resume", script.resume)
        if script.loses_driver:
            declared["runners"][SPARE] = {"site": "lab"}
            for query in declared["queries"].values():
                query["runners"].append(SPARE)


def give_token(on: Stage) -> str:
    """Let the holder of a new token act on the page; return where that is, in words."""
    token, file = secrets.token_hex(24), on.world / "desk.token"
    file.write_text(token + "\n", encoding="ascii")
    file.chmod(0o600)
    with changing(on.config) as declared:
        declared["http"]["tokens"] = [{"name": "demo", "role": "operator", "token": f"file:{file}"}]
    return f"http://{declared['http']['listen']}/ (log in with {token})"


def open_world(on: Stage, script: Script) -> None:
    """Bring up two clusters and the replicator."""
    on.say(f"two Kafka {script.kafka} clusters and MirrorMaker 2")
    secured = ("--secured", script.secured) if script.secured else ()
    on.lab(
        "up", "--kafka", script.kafka, "--brokers", str(script.brokers), "--base-port", str(script.base_port),
        *secured, timeout=900,
    )  # fmt: skip


def first_commit_after(operation: Mapping[str, Any], struck_at: float) -> float | None:
    """Seconds from the fault to the first batch that the standby committed, by the operation's own record."""
    at = operation["measured"].get("first_commit_at")
    if at is None:
        return None
    return _at(at) - struck_at


def verdict_after(events: Sequence[Mapping[str, Any]], struck_at: float) -> float | None:
    """Seconds from the fault to the verdict DOWN on the primary, by the history."""
    for event in events:
        if event["kind"] == "verdict" and event["text"].startswith("east is DOWN"):
            return _at(event["at"]) - struck_at
    return None


def _at(written: str) -> float:
    """Seconds since the epoch."""
    return datetime.fromisoformat(written).timestamp()


class _Stopwatch:
    def __init__(self) -> None:
        self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def mark(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[name] = round(now - self._last, 2)
        self._last = now
