"""A test run against an environment that only notes what is requested, and who shares an environment."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chaos.docker import Environment
from chaos.errors import ScenarioFailed
from chaos.faults import Observation
from chaos.play import ScenarioRun, WaitLimits
from chaos.report import played_of, result_of
from chaos.scenario_outcome import Load, Outcome, judge
from chaos.scenarios import Scenario
from chaos.watcher import Watcher
from reports.origin import Origin
from reports.result import page
from tests.unit.chaos.test_scenario_outcome import ROW, operation, scenario
from tests.unit.chaos.test_scenarios import sight

QUICK = WaitLimits(up=1, running=1, calm=0, moment=1, end=1, after=0, verify=1)


class Noted(Environment):
    """An environment that answers as a healthy one does, and notes the commands."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.commands: list[str] = []
        self._answers = answers
        self.ahead = 0
        self.said = ""
        self.trips: list[float] = []
        self.tally = "20 1"
        self.folders: list[str] = []
        """Of checkpoints, one listing after the other."""
        self.refusals: list[int] = []
        """Exit codes of the plan of a failback."""
        self.checked: dict[str, bool] = {}
        """By a verb that was typed for all queries, whether its exit code counts."""

    def compose(self, *arguments: str, timeout: float = 0) -> str:
        self.commands.append(f"compose {' '.join(arguments)}")
        return ""

    def docker(self, verb: str, services: Sequence[str], *options: str) -> None:
        self.commands.append(" ".join([verb, *options, *services]))

    def cut(self, network: str, service: str) -> None:
        self.commands.append(f"cut {network} {service}")

    def join(self, network: str, service: str) -> None:
        self.commands.append(f"join {network} {service}")

    def log_of(self, service: str) -> str:
        return f"{service} warmed up"

    def execute(self, service: str, *command: str, timeout: float = 0, check: bool = True) -> tuple[int, str]:
        self.commands.append(f"{service}: {' '.join(command)}")
        if command[0] == "date":
            return 0, f"{time.time() + self.ahead:.0f}\n"
        if command[0] == "sh":
            return (0, json.dumps({"records": [{}] * 3})) if "--tail" in command[-1] else (1, self.said)
        if command[0] == "ls":
            return 0, self.folders.pop(0) if self.folders else ""
        if command[:3] == ("tideover", "plan", "failback"):
            return self.refusals.pop(0) if self.refusals else 0, ""
        if command[0] == "cat":
            return 0, f"{self.tally}\n"
        if "lab.ping" in command:
            return 0, f"{self.trips.pop(0)}\n"
        if "--all" in command:
            self.checked[command[1]] = check
        verb = command[1] if command[0] == "tideover" else command[2]
        answer = self._answers.get(verb)
        return 0, json.dumps(answer.next() if isinstance(answer, Commands) else answer)


class Commands:
    """One answer after the other, the last one from then on."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    def next(self) -> object:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class ScriptedWatcher(Watcher):
    """Sees one situation after the other, the next one at each look."""

    def __init__(self, sights: Sequence[Observation]) -> None:
        self._sights = []
        self._coming = list(sights)
        self.reconnects = []
        self.begun = False
        self.looks: list[Observation | None] = []
        """What is seen at each further look, one after the other; else what was reported last."""

    def begin(self) -> None:
        self.begun = True

    def look(self) -> Observation | None:
        if self.looks:
            return self.looks.pop(0)
        return Observation({**self._sights[-1].status, "at": (datetime.now(UTC) + timedelta(seconds=1)).isoformat()})

    def await_sight(
        self, holds: Callable[[Observation], bool], seconds: float, what: str,
        *, afresh: Callable[[Observation], bool] | None = None,
    ) -> Observation:  # fmt: skip
        while self._coming and not (self._sights and holds(self._sights[-1])):
            self._sights.append(self._coming.pop(0))
        assert holds(self._sights[-1]), what
        while afresh is not None and not ((seen := self.look()) and afresh(seen)):
            if not self.looks:
                raise ScenarioFailed(f"it did not come to this: {what}")
        return self._sights[-1]


def row(cluster: str, **more: Any) -> list[dict[str, Any]]:
    planned_scenario = {
        "query": "q",
        "cluster": cluster,
        "runner": "a",
        "state": "running",
        "ready": True,
        "batch": 5,
        "epoch": 1,
    }
    return [{**planned_scenario, **more}]


CLEAN = {"q": {**ROW, "exposed": 0}}
EARLIER = {**ROW, "acked": 40, "delivered": 38}
PLACE = "--dir /var/lib/lab --config /etc/tideover/tideover.yaml"
VERIFY = f"verifier: python -m lab verify {PLACE} -o json"
HISTORY: list[dict[str, Any]] = [
    {"operation": None, "kind": "verdict", "at": "2036-01-02T03:04:14.000+00:00", "text": "east is DOWN: no answer"},
    {"operation": "o1", "kind": "fence", "at": "2036-01-02T03:04:15.000+00:00", "text": "it is fenced"},
]


def answers(**more: Any) -> dict[str, Any]:
    return {
        "list": Commands(row("east"), row("west")),
        "history": HISTORY,
        "show-op": operation(started_at="2036-01-02T03:04:15.000+00:00"),
        "lab": Commands({"q": EARLIER}, {"q": ROW}),
        **more,
    }


def play(planned_scenario: Scenario, environment: Noted, watcher: ScriptedWatcher, *, fresh: bool = True) -> Outcome:
    return ScenarioRun(planned_scenario, environment, watcher, lambda _: None, fresh=fresh, patience=QUICK).play(
        "its own"
    )


def test_a_failover_is_played_from_the_first_container_to_the_count() -> None:
    environment = Noted(answers())
    seen = ScriptedWatcher([sight(verdict="UP", ready=False), sight(), sight(cluster="west", verdict="DOWN")])
    outcome = play(scenario("kill-cluster"), environment, seen)
    assert seen.begun
    assert len(seen.since(0)) == 3, "while a query could not move, nothing is struck"
    assert environment.commands == [
        "compose up --detach --no-build",
        "verifier: tideover list -o json",
        "kill east-1 east-2 east-3",
        "stop -t 25 traffic",
        f"{VERIFY} --wait 0",
        "compose up --detach --no-build --no-deps traffic-west",
        "stop -t 25 traffic-west",
        "verifier: tideover history --limit 10000 -o json",
        "verifier: tideover show-op o1 -o json",
        f"{VERIFY} --wait 0.5",
        "verifier: tideover list -o json",
    ]
    assert outcome.broke == ""
    assert [(each.cluster, each.verdict) for each in outcome.changes] == [("east", "DOWN")], "as the history tells"
    assert outcome.loads == {"on west after the move": Load(before={"q": EARLIER}, after={"q": ROW})}
    assert outcome.places == {"q": ("west", "a", "running")}
    assert outcome.environment == "its own"


def test_a_soak_counts_once_per_part_and_then_moves() -> None:
    names = "kill-one-broker", "cut-controllers"
    parts = tuple(quick(scenario(name)) for name in names)
    end = scenario("kill-cluster")
    soak = replace(end, parts=parts, steps=(*(step for part in parts for step in part.steps), *end.steps))
    counts = [{"q": {**ROW, "acked": 10 * each, "delivered": 10 * each}} for each in range(1, 6)]
    environment = Noted(answers(lab=Commands(*counts, {"q": ROW})))
    outcome = play(soak, environment, ScriptedWatcher([sight(), sight(cluster="west", verdict="DOWN")]))
    assert outcome.broke == ""
    assert environment.commands[2:14] == [
        "kill east-3", f"{VERIFY} --load", f"{VERIFY} --load", "start east-3",
        "cut east controller-one", "cut east controller-two", f"{VERIFY} --load", f"{VERIFY} --load",
        "join east controller-one", "join east controller-two", "kill east-1 east-2 east-3", "stop -t 25 traffic",
    ]  # fmt: skip
    shown = {when: (load.before["q"]["acked"], load.after["q"]["acked"]) for when, load in outcome.loads.items()}
    assert shown == {
        "while nothing moved, in part 1, kill-one-broker": (10, 20),
        "while nothing moved, in part 2, cut-controllers": (30, 40),
        "on west after the move": (50, 100),
    }
    assert not [each for each in judge(soak, outcome) if "nothing was" in each or "counted" in each]


@pytest.mark.parametrize(
    "last",
    [None, sight(age=1e9), Observation({**sight().status, "leader": None}), sight(verdict="DEGRADED")],
    ids=["no answer", "no progress since", "nobody leads", "degraded"],
)
def test_where_nothing_moves_all_must_be_well_again_in_the_end(last: Observation | None) -> None:
    environment = Noted(answers(history=[], lab=CLEAN))
    away = quick(replace(scenario("store-away"), hold_seconds=0.0))
    seen = ScriptedWatcher([sight()])
    seen.looks = [sight(), last]
    outcome = play(away, environment, seen)
    assert outcome.broke == ""
    assert outcome.unhealed == "it did not come to this: all is well"
    assert "stop -t 25 traffic" in environment.commands, "what it counted and where its queries are is told, too"
    assert outcome.verdict == CLEAN
    assert "it did not heal: it did not come to this: all is well" in judge(away, outcome)
    well = play(away, Noted(answers(history=[], lab=CLEAN)), ScriptedWatcher([sight()]))
    assert well.unhealed == ""
    assert not [each for each in judge(away, well) if "heal" in each]


def test_final_places_are_read_and_not_taken_from_the_last_sight() -> None:
    environment = Noted(answers(history=[], list=Commands(row("east"), row("east", state="failed"))))
    outcome = play(
        quick(replace(scenario("cut-controllers"), hold_seconds=0.0)), environment, ScriptedWatcher([sight(), sight()])
    )
    assert outcome.places == {"q": ("east", "a", "failed")}


def test_a_run_that_broke_before_its_fault_is_not_counted() -> None:
    environment = Noted(answers())
    seen = ScriptedWatcher([sight()])
    seen.looks = [sight(verdict="DOWN")]
    outcome = play(scenario("kill-cluster"), environment, seen)
    assert outcome.broke == "it did not come to this: all is well"
    assert not any("lab verify" in each for each in environment.commands)
    planned_scenario = played_of(scenario("kill-cluster"), outcome, {"command": "c", "commit": "abc"})
    assert planned_scenario["seconds"] == {"down": None, "switch": 4.25}
    on = Origin(revision="abc", changed=False, made="now", machine="2 cores")
    text = page(result_of("chaos", [planned_scenario], [], on))
    assert "- 03:04:14 UTC: east is DOWN\n- 03:04:15 UTC: failover of q begins" in text
    assert "- not as expected: failover of q began before there was a cause" in text


def test_records_still_being_replicated_are_counted_again() -> None:
    environment = Noted(answers(history=[]))  # two records are still on their way
    play(
        quick(replace(scenario("cut-controllers"), hold_seconds=0.0)), environment, ScriptedWatcher([sight(), sight()])
    )
    assert environment.commands.count(f"{VERIFY} --wait 0.5") > 1


def test_a_switchover_is_typed_under_load_that_is_counted_before_and_after() -> None:
    counts = [{"q": {**ROW, "acked": each, "delivered": each}} for each in (10, 20, 30)]
    environment = Noted(answers(lab=Commands(*counts, CLEAN)))
    outcome = play(scenario("switchover-under-load"), environment, ScriptedWatcher([sight(), sight(cluster="west")]))
    assert outcome.broke == ""
    assert environment.commands[2:7] == [
        f"{VERIFY} --load",
        "verifier: tideover switchover --all --to west --yes --reason chaos",
        f"{VERIFY} --load",
        "stop -t 25 traffic",
        f"{VERIFY} --wait 0",
    ]
    assert environment.checked == {"switchover": True}, "one that is refused breaks the story"
    shown = {when: (load.before["q"]["acked"], load.after["q"]["acked"]) for when, load in outcome.loads.items()}
    assert shown == {"during the switchover": (10, 20), "on west after the move": (30, 100)}


@pytest.mark.parametrize(
    ("after", "broke"),
    [("revenue\n", ""), ("q-drill-7\nrevenue\n", "the drill left q-drill-7 in /var/lib/tideover/checkpoints")],
)
def test_a_drill_is_typed_under_load_and_leaves_no_copy_of_a_checkpoint(after: str, broke: str) -> None:
    environment = Noted(answers(lab=Commands({"q": EARLIER}, {"q": ROW}, CLEAN), list=Commands(*[row("east")] * 2)))
    environment.folders = ["revenue\n", after]
    drill = replace(scenario("drill-under-load"), hold_seconds=0.0)
    outcome = play(drill, environment, ScriptedWatcher([sight()]))
    assert outcome.broke == broke
    assert "verifier: tideover drill --all --to west --reason chaos" in environment.commands
    assert environment.checked == {"drill": True}, "one that is not proven breaks the story"
    if not broke:
        assert outcome.epochs == {"q": (1, 1)}
        assert [*outcome.loads] == ["during the drill"]


def test_operations_of_an_earlier_run_do_not_count() -> None:
    earlier = {**HISTORY[1], "operation": "o0", "at": "2026-01-01T00:00:00.000+00:00"}
    environment = Noted(answers(history=[earlier, *HISTORY]))
    outcome = play(
        scenario("kill-cluster"), environment, ScriptedWatcher([sight(), sight(cluster="west", verdict="DOWN")])
    )
    assert len(outcome.operations) == 1
    assert not any("show-op o0" in each for each in environment.commands)


def test_a_way_home_is_played_in_the_order_that_keeps_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.play._AGAIN_SECONDS", 0.0)
    environment = Noted(answers(list=Commands(row("east"), row("east", epoch=3))))
    environment.refusals = [1, 1]
    moved = sight(cluster="west", verdict="DOWN")
    seen = ScriptedWatcher([sight(), moved, sight(cluster="west"), sight()])
    outcome = play(quick(scenario("failback-after-kill")), environment, seen)
    assert outcome.broke == ""
    report = "tideover show-op o1 --tail -o json > /var/lib/lab/tail.json && cat /var/lib/lab/tail.json"
    home = "--on east --tail /var/lib/lab/tail.json"
    assert environment.commands[2:] == [
        "kill replicator",
        "kill east-1 east-2 east-3",
        "stop -t 25 traffic",
        "compose up --detach --no-build --no-deps traffic-west",
        "start east-1 east-2 east-3",
        "verifier: tideover history --limit 10000 -o json",
        "verifier: tideover show-op o1 -o json",
        f"verifier: sh -c {report}",
        f"verifier: python -m lab turn {PLACE} --from west",
        "compose up --detach --no-build --no-deps replicator-home",
        *["verifier: tideover plan failback --all"] * 3,
        f"{VERIFY} --load",
        "verifier: tideover failback --all --yes --reason chaos",
        f"{VERIFY} --load",
        "stop -t 25 traffic-west",
        f"{VERIFY} --wait 0 {home}",
        "compose up --detach --no-build --no-deps traffic",
        "stop -t 25 traffic",
        "verifier: tideover history --limit 10000 -o json",
        "verifier: tideover show-op o1 -o json",
        f"{VERIFY} --wait 0.5 {home}",
        "verifier: tideover list -o json",
    ]
    assert environment.refusals == [], "it is typed once its plan is not refused any more"
    assert environment.checked == {"failback": True}
    assert outcome.tail == 3
    assert "3 records were on east alone" in [each.found for each in outcome.deeds]


NO_SPACE = "dd: error writing '/var/lib/kafka/data/filler': No space left on device\n"


@pytest.mark.parametrize(
    ("name", "facts", "broke"),
    [
        ("clock-off", {"ahead": 3600}, ""),
        ("clock-off", {}, "the clock of controller-two is 0 s ahead, not 3600 s"),
        ("full-disk", {"said": NO_SPACE}, ""),
        ("full-disk", {"said": "sh: dd: not found\n"}, "the disk of east-2 is not full: sh: dd: not found"),
        ("slow-link", {"trips": [0.01, 0.4]}, ""),
        ("slow-link", {"trips": [0.39] * 9}, "the link is not slow: a round trip takes 0.390 s"),
        ("slow-link", {"trips": [0.4], "tally": "7 0"}, "the link lost none of 7 chunks"),
    ],
)
def test_a_fault_without_its_effect_ends_the_run(
    name: str, facts: dict[str, Any], broke: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.play._AGAIN_SECONDS", 0.01)
    monkeypatch.setattr("chaos.play._SLOW_SECONDS", 60.0 if facts.get("trips") == [0.01, 0.4] else -1.0)
    environment = Noted(answers() if name == "clock-off" else answers(history=[], lab=CLEAN))
    for fact, value in facts.items():
        setattr(environment, fact, value)
    seen = ScriptedWatcher([sight(), sight(cluster="west", verdict="DOWN")] if name == "clock-off" else [sight()])
    assert play(quick(replace(scenario(name), hold_seconds=0.0)), environment, seen).broke == broke


def quick(planned_scenario: Scenario) -> Scenario:
    return replace(planned_scenario, steps=tuple(replace(step, after_seconds=0.0) for step in planned_scenario.steps))
