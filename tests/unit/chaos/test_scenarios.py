"""The table of scenarios, and the soaks that are drawn from it."""

from pathlib import Path

import pytest
import yaml

from chaos.faults import EAST, LEADER, Act, Observation, When
from chaos.scenarios import SCENARIOS, Scenario, named
from chaos.soak import SMALLER, draw_soak, heals

ROOT = Path(__file__).resolve().parents[3]
COMPOSED = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("scenario", [*SCENARIOS, *SMALLER], ids=lambda scenario: scenario.name)
def test_a_scenario_names_services_networks_and_files_that_there_are(scenario: Scenario) -> None:
    for step in scenario.steps:
        assert set(step.on) <= {*COMPOSED["services"], LEADER}
        assert step.network in {"", *COMPOSED["networks"]}
        if step.act in {Act.CUT, Act.JOIN}:
            assert all(step.network in COMPOSED["services"][service]["networks"] for service in step.on)
    assert all((ROOT / file).is_file() for file in scenario.files)


@pytest.mark.parametrize(
    "scenario", [each for each in (*SCENARIOS, *SMALLER) if heals(each)], ids=lambda scenario: scenario.name
)
def test_a_healing_scenario_undoes_all_that_it_did(scenario: Scenario) -> None:
    undone = {Act.KILL: Act.START, Act.FREEZE: Act.THAW, Act.CUT: Act.JOIN, Act.SLOW: Act.CLEAR}
    done = [(undone[step.act], step.on, step.network) for step in scenario.steps if step.act in undone]
    undo = [(step.act, step.on, step.network) for step in scenario.steps if step.act in undone.values()]
    assert done
    assert done == undo


def test_a_soak_is_repeatable_by_seed_fits_its_time_and_ends_in_a_failover() -> None:
    soak = draw_soak(30, 7)
    assert soak == draw_soak(30, 7)
    assert soak.steps != draw_soak(30, 8).steps
    assert 20 * 60 < sum(step.after_seconds for step in soak.steps) <= 30 * 60 + 30
    assert soak.steps[0].after_seconds >= 10, "there is a rest before each fault"
    assert soak.moves
    assert (soak.steps[-1].act, soak.steps[-1].on) == (Act.KILL, EAST)
    with pytest.raises(ValueError, match="too short"):
        draw_soak(0.1, 1)


def test_a_soak_strikes_only_once_all_is_well_after_the_last_fault() -> None:
    soak = draw_soak(60, 3)
    assert {part.name for part in soak.parts} >= {part.name for part in SMALLER}
    assert all("DOWN" in part.never for part in soak.parts)
    assert sum((part.steps for part in soak.parts), ()) == soak.steps[: soak.calm_steps]
    firsts = [*(part.steps[0] for part in soak.parts), soak.steps[soak.calm_steps]]
    assert all(step.when is When.WELL for step in firsts)
    for part, later in zip(soak.parts, firsts[1:], strict=True):
        assert later.after_seconds >= part.heal_seconds + 10
    assert next(part for part in SMALLER if part.name == "replicator-restarts").heal_seconds >= 60
    assert {scenario(name).heal_seconds for name in ("store-away", "store-freezes")} == {30.0}


def test_the_primary_freezes_for_less_long_than_a_verdict_takes() -> None:
    detection = yaml.safe_load((ROOT / "conf/compose/tideover.yaml").read_text("utf-8"))["detection"]
    interval, timeout = (float(detection[key].removesuffix("s")) for key in ("interval", "timeout"))
    still = next(part for part in SMALLER if part.name == "primary-stands-still")
    assert still.steps[1].after_seconds + 5 < timeout + (detection["failures"] - 1) * interval


def scenario(name: str) -> Scenario:
    found = named(name)
    assert found is not None
    return found


def sight(
    *, verdict: str = "UP", cluster: str = "east", state: str = "running", phase: str | None = None,
    cooling: bool = False, event: str = "verdict", ready: bool | None = True,
    since: str = "2026-01-02T03:04:01.500+00:00", age: float | None = 0.0,
) -> Observation:  # fmt: skip
    clusters = {"east": verdict, "west": "UP"}
    query = {"query": "q", "cluster": cluster, "runner": "a", "state": state, "ready": ready}
    return Observation(
        {
            "at": "2026-01-02T03:04:05.000+00:00",
            "leader": {"name": "controller-one"},
            "clusters": [{"cluster": name, "verdict": each, "since": since} for name, each in clusters.items()],
            "queries": [{**query, "progress_age_seconds": age}],
            "operations": [{"phase": phase}] if phase else [],
            "cooldowns": [{"query": "q"}] if cooling else [],
            "events": [{"kind": event, "text": "so it is"}],
        }
    )


def test_moments_are_read_from_the_situation() -> None:
    assert sight().shows(When.AT_ONCE)
    assert sight().shows(When.WELL)
    assert not sight(verdict="DEGRADED").shows(When.WELL)
    assert not sight(ready=None).shows(When.WELL)
    assert not Observation({**sight().status, "leader": None}).shows(When.WELL), "nobody would move anything"
    assert not sight(cluster="west").shows(When.WELL)
    assert sight(verdict="DOWN").shows(When.DOWN)
    assert not sight(verdict="DEGRADED").shows(When.DOWN)
    assert sight(phase="FENCING").shows(When.MOVING)
    assert not sight(phase="BLOCKED").shows(When.MOVING)
    assert sight(phase="BLOCKED").shows(When.BLOCKED)
    assert not sight(phase="FENCING").shows(When.BLOCKED)
    assert not sight().shows(When.BLOCKED)
    assert sight(cluster="west").shows(When.MOVED)
    assert not sight(cluster="west", phase="VERIFYING").shows(When.MOVED), "it has not settled"
    assert not sight(cluster="west", state="failed").shows(When.MOVED)
    assert sight(cluster="west").shows(When.BACK)
    assert not sight(cluster="west", verdict="DOWN").shows(When.BACK)
    assert not sight().shows(When.BACK), "it was not left"
    assert sight(verdict="DOWN", event="not-moved").shows(When.REFUSED)
    assert sight(verdict="DOWN", cooling=True).shows(When.REFUSED)
    assert not sight(verdict="DOWN", cooling=True, phase="FENCING").shows(When.REFUSED), "it is being tried"
    assert not sight(verdict="DOWN", event="not-moved", phase="FENCING").shows(When.REFUSED), "others are being tried"
    assert not sight(verdict="DOWN").shows(When.REFUSED)
    assert sight().leader == "controller-one"
    assert sight().all_ready
    assert not any(sight(ready=reported).all_ready for reported in (False, None))


def test_a_cluster_is_up_again_only_since_it_came_back() -> None:
    at = 1767323041.5  # as the sight says
    assert sight().is_up("east", at)
    assert not sight().is_up("east", at + 0.1), "that was before"
    assert not sight(verdict="SUSPECT").is_up("east", at)


def test_a_query_that_committed_nothing_since_has_a_runner_that_may_be_gone() -> None:
    at = 1767323045.0  # as the sight says
    assert sight(age=2.0).has_progressed(at - 2.0)
    assert not sight(age=2.1).has_progressed(at - 2.0)
    assert not sight(age=None).has_progressed(0.0)
