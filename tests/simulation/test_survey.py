"""Looking on: every look is new, and what is large is read now and then only."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from orchestrator.cli import context as cli_world
from orchestrator.cli.inspect.list import list_queries
from orchestrator.cli.inspect.show import show
from orchestrator.config.load import Loaded
from orchestrator.facts.status import SLOW_SECONDS, StatusReader, status_now
from orchestrator.operation import pauses
from orchestrator.shapes.status import status_json
from state.store.sql import schema
from tests.contract import samples
from tests.simulation.control import controller, pass_time
from tests.simulation.stores import force
from tests.simulation.world import QUERY, World, settings


def test_a_look_reads_the_state_each_time_and_large_tables_seldom() -> None:
    world = World()
    reader = StatusReader(world.store, world.settings, world.clock)
    first = reader.read()
    assert [(each.query, each.cluster, each.lag_records) for each in first.queries] == [(QUERY, "east", 40)]
    world.store.save_ends(replace(end, end=end.end + 7) for end in world.store.ends("east").values())
    world.clock.wait(SLOW_SECONDS / 2)
    assert reader.read().queries[0].lag_records == 40
    world.clock.wait(SLOW_SECONDS)
    later = reader.read()
    assert later.queries[0].lag_records == 54
    assert later.at > first.at


def test_an_automatic_move_is_seen_from_its_beginning_to_its_cool_down() -> None:
    world = World(settings(policy={"automatic": True}))
    site, reader = controller(world), StatusReader(world.store, world.settings, world.clock)
    pass_time(world, 5, site)
    assert reader.read().leader is not None
    world.clusters["east"].reachable = False
    world.runner.answers = False
    pass_time(world, 20, site)
    moving = reader.read()
    (operation,) = moving.operations
    assert (moving.queries[0].operation, moving.queries[0].state) == (operation.id, "held")
    assert moving.clusters["east"] is not None
    assert moving.clusters["east"].verdict == "DOWN"
    world.runner.answers = True
    pass_time(world, 20, site)
    moved = reader.read()
    assert (moved.operations, moved.queries[0].cluster) == ((), "west")
    assert moved.cooldowns[QUERY].operation == operation.id
    assert moved.queries[0].automatic == "cooling-down"
    assert moved.events[-1].sequence == world.store.history()[-1].sequence


def test_list_show_and_watch_agree_about_a_query_at_one_moment(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(settings(policy={"automatic": True}))
    world.runner.alive = False
    force(world.store, schema.readiness, samples.readiness(query=QUERY, sampled_at=world.store.now()))
    pauses.pause(world.store, QUERY, until=world.store.now() + timedelta(seconds=30), actor="alex", reason="")
    world.store.add_request(samples.request(query=QUERY, created_at=world.store.now()))
    world.clock.wait(12)
    loaded = Loaded(path=folder / "tideover.yaml", settings=world.settings)
    given = cli_world.Context(config=None, _loaded=loaded, _store=world.store)

    def said(verb: click.Command, *arguments: str) -> dict[str, Any]:
        verb.main([*arguments, "-o", "json"], obj=given, standalone_mode=False)
        shown = json.loads(capsys.readouterr().out)
        found: dict[str, Any] = shown[0] if isinstance(shown, list) else shown
        return found

    listed, shown = said(list_queries), said(show, QUERY)
    picture = status_json(StatusReader(world.store, world.settings, world.clock).read())
    (watched,) = json.loads(json.dumps(picture["queries"]))
    both = listed.keys() & watched.keys()
    assert len(both) == 13
    assert {key: listed[key] for key in both} == {key: watched[key] for key in both}
    same = listed.keys() - {"runner", "automatic"}
    assert {key: shown[key] for key in same} == {key: listed[key] for key in same}
    assert (shown["runner"]["runner"], shown["automatic"]["state"]) == (listed["runner"], listed["automatic"])
    assert (listed["automatic"], listed["ready"], listed["request"]) == ("paused", True, shown["requests"][0]["id"])
    assert 0 < listed["progress_age_seconds"] < 60


def test_a_verb_that_shows_no_lag_reads_no_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(settings())

    def refuse(_: str) -> None:
        raise AssertionError("a row for each partition")

    monkeypatch.setattr(world.store, "ends", refuse)
    (query,) = status_now(world.store, world.settings).queries
    assert (query.query, query.lag_records) == (QUERY, None)
