"""Plays one scenario on an environment, from a calm beginning to the verdict."""

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from chaos.docker import Environment
from chaos.errors import DockerFailed, ScenarioFailed
from chaos.faults import (
    LEADER,
    NO_WAIT,
    PRIMARY,
    RUNNERS,
    STANDBY,
    STRIKES,
    WORKERS,
    Act,
    Action,
    FaultStep,
    Observation,
    When,
)
from chaos.scenario_outcome import Load, Outcome, changes_of, is_counted, leaders_of
from chaos.scenarios import Scenario
from chaos.watcher import TOOLS, Watcher
from lab.tcp_proxy import ORDERS, TALLY, Line

Say = Callable[[str], None]

_CONFIG = "/etc/tideover/tideover.yaml"
_PING = ("python", "-m", "lab.ping", "/var/lib/lab", PRIMARY, "link:19091")
_READ = ("python", "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())")
"""Prints what an address answers."""
_SLOW_SECONDS = 60.0
"""For the link to have read its orders; it looks twice a second."""
_FILLER = "/var/lib/kafka/data/filler"
_FULL = "No space left"
_VERBS = {Act.KILL: "kill", Act.FREEZE: "pause", Act.THAW: "unpause", Act.START: "start"}
_PRODUCERS = {PRIMARY: "traffic", STANDBY: "traffic-west"}
"""By the cluster that they write to."""
_CHECKPOINTS = "/var/lib/tideover/checkpoints"
_LAB = ("--dir", "/var/lib/lab", "--config", _CONFIG)
_TAIL = "/var/lib/lab/tail.json"
_EVENTS = "10000"
"""Of the history: more than any test run has."""
_WARM = "warmed up"
"""What a runner's log says when it is; one whose warm-up fails tries again."""
_AGAIN_SECONDS = 5.0
"""Between two questions that a command must be started for."""
_MOST_QUESTIONS = 240.0
_CLOCK_SECONDS = 60.0
"""By so much a clock may be beside what a scenario says."""


@dataclass(frozen=True, kw_only=True)
class WaitLimits:
    """How long is waited at most, in seconds; generous, since a dozen JVMs on two cores are slow and not wrong."""

    up: float = 900.0
    running: float = 900.0
    calm: float = 10.0
    """Before the first fault; this one is always waited."""
    moment: float = 240.0
    """For the moment of a step."""
    end: float = 300.0
    """For every query to be where it belongs."""
    after: float = 15.0
    """Load on the standby after a move; this one is always waited."""
    verify: float = 120.0


class ScenarioRun:
    """One scenario on one environment, which other scenarios may have left as they found it."""

    def __init__(
        self,
        scenario: Scenario,
        environment: Environment,
        watcher: Watcher,
        say: Say,
        *,
        fresh: bool,
        patience: WaitLimits,
    ) -> None:
        self._scenario = scenario
        self._environment = environment
        self._watcher = watcher
        self._say = say
        self._fresh = fresh
        self._patience = patience
        self._leader: str | None = None
        self._begun_at = time.time()
        self._struck_at = 0.0
        self._deeds: list[Action] = []
        self._up_seconds = 0.0
        self._loads: dict[str, Load] = {}
        self._epochs: dict[str, int] = {}
        self._producer = _PRODUCERS[PRIMARY]
        self._tail = 0
        self._home: tuple[str, ...] = ()
        """What the verifier gets once the queries are at home."""
        self._unhealed = ""

    def play(self, environment_name: str) -> Outcome:
        """Play it to its end; what broke on the way is in the outcome."""
        begun = time.monotonic()
        seen, blinked = self._watcher.mark(), len(self._watcher.reconnects)
        broke = ""
        verdict: dict[str, Any] = {}
        history: list[dict[str, Any]] = []
        operations: list[dict[str, Any]] = []
        rows: list[dict[str, Any]] = []
        try:
            self._begin()
            self._up_seconds = round(time.monotonic() - begun, 1)
            self._say(f"all queries run and could move after {self._up_seconds:.0f} s")
            time.sleep(self._patience.calm)
            self._strike()
            self._await_end()
            history = self._history()
            operations = self._operations(history)
            verdict = self._verify(operations)
            if (landed := self._scenario.landed) in self._loads:
                self._loads[landed] = replace(self._loads[landed], after=verdict)
            rows = self._query("list")
        except (ScenarioFailed, DockerFailed) as error:
            broke = str(error)
            self._say(broke)
            with contextlib.suppress(DockerFailed, ValueError):  # for the report: what was believed and done until then
                history = self._history()
                operations = self._operations(history)
            if self._struck_at:
                with contextlib.suppress(DockerFailed, ValueError):
                    verdict = self._count(0.0)
        sights = self._watcher.since(seen)
        return Outcome(
            scenario=self._scenario.name, environment=environment_name, up_seconds=self._up_seconds,
            struck_at=self._struck_at, deeds=tuple(self._deeds), changes=tuple(changes_of(history, self._struck_at)),
            leaders=tuple(leaders_of(sights, self._struck_at)), places=_places(rows),
            epochs={row["query"]: (self._epochs[row["query"]], row["epoch"]) for row in rows},
            reconnects=tuple(round(at - self._struck_at, 1) for at in self._watcher.reconnects[blinked:]),
            operations=operations, verdict=verdict, loads=self._loads, tail=self._tail, broke=broke,
            unhealed=self._unhealed,
        )  # fmt: skip

    def _begin(self) -> None:
        """Until both clusters are UP, and every query commits batches on the primary and could move."""
        if self._fresh:
            self._environment.compose("up", "--detach", "--no-build", timeout=self._patience.up)
            self._watcher.begin()
        else:
            self._environment.docker("start", [self._producer])
        self._await_moment(When.WELL)
        deadline = time.monotonic() + self._patience.running
        while not _may_begin(rows := self._query("list")):  # read again: what the watcher saw last may be old
            _wait_again(deadline, "the queries did not commit three batches each on east, ready to be moved")
        self._epochs = {row["query"]: row["epoch"] for row in rows}
        while not all(_WARM in self._environment.log_of(each) for each in RUNNERS):
            _wait_again(deadline, "the runners did not get warm")

    def _strike(self) -> None:
        for number, step in enumerate(self._scenario.steps):
            self._await_moment(step.when)
            if step.act is Act.FAILBACK:
                self._await_way_home()
            loaded = self._scenario.counted_at.get(number)
            before = self._load() if loaded else {}
            time.sleep(step.after_seconds)
            if loaded:
                self._loads[loaded] = Load(before=before, after=self._load())
            services = [self._resolve(service, step.act) for service in step.on]
            now = time.time()
            self._struck_at = self._struck_at or now
            self._say(f"{now - self._struck_at:6.1f} s  {step}")
            found = self._watched(step, services) if step.during else self._do(step, services)
            begun, done = (round(at - self._struck_at, 3) for at in (now, time.time()))
            self._deeds.append(
                Action(begun=begun, done=done, text=str(step), act=step.act, on=tuple(services), when=step.when,
                     found=found)
            )  # fmt: skip

    def _watched(self, step: FaultStep, services: list[str]) -> str:
        """Do it, and count what was acknowledged and delivered during it."""
        before = self._load()
        found = self._do(step, services)
        self._loads[step.during] = Load(before=before, after=self._load())
        return found

    def _await_moment(self, when: When) -> None:
        """Until a moment has come. Raises StoryFailed.

        That all is well must be so now, and not have been so once: every query has made progress since the last step.
        """
        if when is not When.WELL:
            self._watcher.await_sight(_showing(when), self._patience.moment, when.value)
            return
        since = self._struck_at + max((deed.done for deed in self._deeds), default=0.0)
        self._watcher.await_sight(
            _showing(when), self._patience.running, when.value,
            afresh=lambda sight: sight.shows(when) and sight.has_progressed(since),
        )  # fmt: skip

    def _resolve(self, service: str, act: Act) -> str:
        if service != LEADER:
            return service
        if self._leader is None or act in STRIKES:
            self._leader = self._watcher.await_sight(
                lambda sight: sight.leader is not None, self._patience.moment, "a controller leads"
            ).leader
        return str(self._leader)

    def _do(self, step: FaultStep, services: list[str]) -> str:
        """Do it, and say what was met there. Raises StoryFailed where it did not come to what was wanted."""
        environment = self._environment
        found = ""
        match step.act:
            case Act.KILL | Act.FREEZE | Act.THAW | Act.START:
                found = self._executors_on(services) if step.when is When.MOVING else ""
                environment.docker(_VERBS[step.act], services)
            case Act.CUT | Act.JOIN:
                plug = environment.cut if step.act is Act.CUT else environment.join
                for service in services:
                    plug(step.network, service)
            case Act.SLOW | Act.CLEAR:
                found = self._order(step.detail)
            case Act.FILL:
                for service in services:
                    self._fill(service)
            case Act.EMPTY:  # its small disk is mounted again, and empty
                environment.docker("restart", services, "-t", "10")
            case Act.CLOCK:
                for service in services:
                    self._check_clock(service, float(step.detail))
            case _:
                found = self._do_as_person(step, services)
        return found

    def _do_as_person(self, step: FaultStep, services: list[str]) -> str:
        """What a person types or sees to; a verb that is waited for and ends badly raises DockerFailed."""
        match step.act:
            case Act.CONSENT:
                words = ("failover", "--all", "--to", STANDBY, "--yes", "--consent", step.detail)
                self._tideover(*words, "--reason", "chaos", timeout=self._patience.end, check=False)
            case Act.SWITCHOVER:
                self._type(step, "--to", STANDBY, "--yes")
            case Act.DRILL:
                before = self._checkpoints()
                self._type(step, "--to", STANDBY)
                if left := self._checkpoints() - before:
                    raise ScenarioFailed(f"the drill left {', '.join(sorted(left))} in {_CHECKPOINTS}")
            case Act.FAILBACK:
                self._home = ("--on", PRIMARY, "--tail", _TAIL)
                self._type(step, "--yes")
            case Act.PRODUCE:
                self._stop_producer()
                self._start(*services)
            case Act.TURN:
                self._tail = self._report_tail()
                self._run_tool("python", "-m", "lab", "turn", *_LAB, "--from", STANDBY)
                self._start(*services)
                return f"{self._tail:,} records were on {PRIMARY} alone"
        return ""

    def _type(self, step: FaultStep, *options: str) -> None:
        """Type a verb for all queries."""
        words = (step.act.value, "--all", *options, *step.detail.split(), "--reason", "chaos")
        self._tideover(*words, timeout=self._patience.end, check=step.detail != NO_WAIT)

    def _checkpoints(self) -> set[str]:
        return set(self._environment.execute(TOOLS, "ls", "-A", _CHECKPOINTS)[1].split())

    def _await_way_home(self) -> None:
        """Until the plan of the failback is not refused: a reversed replicator takes a while to start."""
        deadline = time.monotonic() + self._patience.moment
        while self._environment.execute(TOOLS, "tideover", "plan", "failback", "--all", check=False)[0]:
            _wait_again(deadline, "the plan of the failback was refused to the end")

    def _report_tail(self) -> int:
        """Have what only the primary has written down; how many records that are. Raises StoryFailed."""
        left = next((each for each in self._operations(self._history()) if each["outcome"] == "done"), None)
        if left is None:
            raise ScenarioFailed("no query had left the primary, so there is no tail to report")
        reported = self._run_tool("sh", "-c", f"tideover show-op {left['id']} --tail -o json > {_TAIL} && cat {_TAIL}")
        return len(json.loads(reported)["records"])

    def _start(self, *services: str) -> None:
        """Start what does not run, and nothing that it depends on: that was struck on purpose."""
        self._environment.compose("up", "--detach", "--no-build", "--no-deps", *services)
        self._producer = next((each for each in services if each in _PRODUCERS.values()), self._producer)

    def _stop_producer(self) -> None:
        self._environment.docker("stop", [self._producer], "-t", "25")

    def _executors_on(self, services: list[str]) -> str:
        """Whose executors are on those services that are workers."""
        found = []
        for worker in [each for each in services if each in WORKERS]:
            answer = json.loads(self._environment.execute(TOOLS, *_READ, f"http://{worker}.hall:8081/json/")[1])
            found += [f"an executor of {each['appdesc']['name']}" for each in answer["executors"]]
        return ", ".join(found)

    def _order(self, line: str) -> str:
        """Set how the link behaves from now on, and report what it lost until then if it is to be clear again.

        Raises StoryFailed when it does not become slow, or when it was so and lost nothing.
        """
        passed, lost = map(int, self._environment.execute("link", "cat", str(TALLY))[1].split())
        if not line and not lost:
            raise ScenarioFailed(f"the link lost none of {passed} chunks")
        self._environment.execute("link", "sh", "-c", f"echo '{line}' > {ORDERS}")
        if line:
            self._await_delay(Line.parse(line))
            return ""
        return f"{lost:,} of {passed:,} chunks were lost at first"

    def _await_delay(self, line: Line) -> None:
        """Until a round trip through the link takes as long as the line says. Raises StoryFailed."""
        deadline = time.monotonic() + _SLOW_SECONDS
        while (took := float(self._environment.execute(TOOLS, *_PING)[1])) < 2 * line.delay_ms / 1000:
            _wait_again(deadline, f"the link is not slow: a round trip takes {took:.3f} s")

    def _fill(self, service: str) -> None:
        """Write until the disk is full; it is, when that is what the writing ended with. Raises StoryFailed."""
        fill = f"LC_ALL=C dd if=/dev/zero of={_FILLER} bs=1M 2>&1"
        reported = self._environment.execute(service, "sh", "-c", fill, check=False)[1]
        if _FULL not in reported:
            raise ScenarioFailed(f"the disk of {service} is not full: {reported.strip()[-200:]}")

    def _check_clock(self, service: str, wanted: float) -> None:
        """Whether a clock is as far ahead as it shall be, by seconds. Raises StoryFailed."""
        ahead = round(float(self._environment.execute(service, "date", "+%s")[1]) - time.time())
        if abs(ahead - wanted) > _CLOCK_SECONDS:
            raise ScenarioFailed(f"the clock of {service} is {ahead} s ahead, not {wanted:g} s")

    def _await_end(self) -> None:
        if self._scenario.moves:
            end = self._await_places()
            if self._scenario.returns:
                self._await_return()
            self._stop_producer()
            self._loads[self._scenario.landed] = Load(before=self._count(0.0), after={})
            self._start(_PRODUCERS[end])
            time.sleep(self._patience.after)
            self._stop_producer()
        else:
            time.sleep(self._scenario.hold_seconds)
            try:
                self._await_moment(When.WELL)
            except ScenarioFailed as error:  # where its queries are, and what was counted, is reported all the same
                self._unhealed = str(error)
            self._stop_producer()

    def _await_places(self) -> str:
        """Until every query is where it belongs; to which cluster records go from then on. Raises StoryFailed.

        Where a query may have stayed that is the primary: from there they come to the standby, too.
        """
        end, most = self._scenario.end, self._patience.end
        if not self._scenario.may_stay:
            self._watcher.await_sight(lambda sight: sight.all_on(end), most, f"every query is on {end}")
            return end
        found = self._watcher.await_sight(lambda sight: sight.all_run, most, "every query runs, and no move is open")
        return end if found.all_on(end) else PRIMARY

    def _await_return(self) -> None:
        """Until the primary is UP again, and then for a while: nothing may go back, and all that it held comes over."""
        back = self._struck_at + max(deed.begun for deed in self._deeds if deed.returns_primary)
        self._watcher.await_sight(
            lambda sight: sight.is_up("east", back), self._patience.end, "east is UP again since it came back"
        )
        time.sleep(self._scenario.hold_seconds)

    def _history(self) -> list[dict[str, Any]]:
        return list(self._query("history", "--limit", _EVENTS))

    def _operations(self, history: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of this test run, oldest first: in an environment that is shared there may be earlier ones."""
        own = [event["operation"] for event in history if _unix(event["at"]) >= self._begun_at]
        return [self._query("show-op", each) for each in dict.fromkeys(own) if each]

    def _verify(self, operations: list[dict[str, Any]]) -> dict[str, Any]:
        """Count until the counts are as they shall be, or patience ends: sinks and replicator may still be at work."""
        deadline = time.monotonic() + self._patience.verify
        while True:
            verdict = self._count(self._patience.verify / 2)
            if is_counted(self._scenario, operations, verdict, self._tail) or time.monotonic() > deadline:
                return verdict

    def _count(self, wait_seconds: float) -> dict[str, Any]:
        """The verdicts of now, by query; it reads the clusters and the sinks, and not the store."""
        return self._run_json("--wait", f"{wait_seconds:g}", *self._home)

    def _load(self) -> dict[str, Any]:
        """What was acknowledged and delivered until now, by query: a verdict takes a minute behind an hour of load."""
        return self._run_json("--load")

    def _run_json(self, *options: str) -> dict[str, Any]:
        return dict(json.loads(self._run_tool("python", "-m", "lab", "verify", *_LAB, "-o", "json", *options)))

    def _run_tool(self, *command: str) -> str:
        return self._environment.execute(TOOLS, *command, timeout=_MOST_QUESTIONS)[1]

    def _query(self, *words: str) -> Any:
        return json.loads(self._tideover(*words, "-o", "json"))

    def _tideover(self, *words: str, timeout: float = _MOST_QUESTIONS, check: bool = True) -> str:
        return self._environment.execute(TOOLS, "tideover", *words, timeout=timeout, check=check)[1]


def _may_begin(rows: list[dict[str, Any]]) -> bool:
    return bool(rows) and all(
        row["cluster"] == PRIMARY and row["state"] == "running" and row["ready"] is True and (row["batch"] or 0) >= 2
        for row in rows
    )


def _wait_again(deadline: float, otherwise: str) -> None:
    if time.monotonic() > deadline:
        raise ScenarioFailed(otherwise)
    time.sleep(_AGAIN_SECONDS)


def _showing(when: When) -> Callable[[Observation], bool]:
    return lambda sight: sight.shows(when)


def _unix(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _places(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str, str]]:
    return {str(row["query"]): (str(row["cluster"]), str(row["runner"]), str(row["state"])) for row in rows}
