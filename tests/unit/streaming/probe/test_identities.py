"""Which cluster has a name: as configured, as pinned, else as first seen; and what is left on one that had it."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from state.settings.keys import Tideover
from state.store.runner_store import RunnerStore
from streaming.errors import NotHere, WrongCluster
from streaming.probe.identities import Identities
from tests.contract import samples
from tests.contract.samples import EAST_ID, OTHER_ID
from tests.memory_store import MemoryStore
from tests.simulation.stores import AwayStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: datetime(2026, 3, 1, tzinfo=UTC))


def identities(**east: Any) -> Identities:
    clusters = {"east": {"bootstrap": ["e:1"], **east}, "west": {"bootstrap": ["w:1"]}}
    return Identities(Tideover.model_validate({"store": "sqlite://", "clusters": clusters}))


def refused(known: Identities, seen: str, cluster: str = "east") -> str:
    with pytest.raises(WrongCluster) as raised:
        known.of(cluster)(seen)
    assert raised.value.seen == seen
    return str(raised.value)


def test_another_cluster_of_the_endpoint_is_not_here_and_is_no_mistake() -> None:
    dr = {"bootstrap": ["dr:1"], "ids": {"east": EAST_ID, "west": OTHER_ID}}
    known = Identities(Tideover.model_validate({"store": "sqlite://", "clusters": {"dr": dr}}))
    known.check("east", EAST_ID)
    with pytest.raises(NotHere) as raised:
        known.check("east", OTHER_ID)
    assert str(raised.value) == f"endpoint dr leads to west now, cluster {OTHER_ID}, and not to east"
    with pytest.raises(NotHere, match="leads to east now"):
        known.check("west", EAST_ID)
    third = "thirdthirdthirdthirdxx"
    assert refused(known, third).startswith(f"east leads to cluster {third}, but clusters.dr.ids.east says")


def test_the_first_that_is_seen_has_the_name_and_is_pinned_once(store: MemoryStore) -> None:
    known = identities()
    known.check("east", None)
    known.check("east", EAST_ID)
    assert refused(known, OTHER_ID) == f"east leads to cluster {OTHER_ID}, but led to cluster {EAST_ID} before"
    known.check("west", OTHER_ID)
    for _ in range(2):
        known.keep(store, actor="runner:a")
    assert [(pin.cluster, pin.id) for pin in store.pins()] == [("east", EAST_ID), ("west", OTHER_ID)]
    texts = [(event.kind, event.actor, event.text) for event in store.history()]
    assert texts == [
        ("pin", "runner:a", f"east is cluster {EAST_ID}"), ("pin", "runner:a", f"west is cluster {OTHER_ID}"),
    ]  # fmt: skip
    known.check("east", EAST_ID)


def test_a_pin_of_another_process_counts_before_the_first_sight_here(store: MemoryStore) -> None:
    store.pin(samples.pin(), event=samples.event())
    known = identities()
    known.check("east", OTHER_ID)
    known.keep(store, actor="controller:one")
    assert [pin.id for pin in store.pins()] == [EAST_ID]
    text = refused(known, OTHER_ID)
    assert text.startswith(f"east leads to cluster {OTHER_ID}, but was cluster {EAST_ID} until now: correct bootstrap")
    assert text.endswith("tideover accept-cluster east")
    known.check("east", EAST_ID)


def test_a_setting_and_the_pin_must_both_hold(store: MemoryStore) -> None:
    store.pin(samples.pin(), event=samples.event())
    known = identities(id=OTHER_ID)
    assert refused(known, EAST_ID).endswith(f"clusters.east.id says {OTHER_ID}: correct bootstrap or id")
    known.check("east", OTHER_ID)
    known.learn(store)
    assert "tideover accept-cluster east" in refused(known, OTHER_ID)
    store.replace_pin("east", former=EAST_ID, new=OTHER_ID, event=samples.event())
    known.learn(store)
    known.check("east", OTHER_ID)


def test_a_query_is_left_behind_until_it_is_placed_again(store: MemoryStore) -> None:
    store.pin(samples.pin(), event=samples.event())
    row = store.adopt(samples.assignment())
    known = identities()
    known.learn(store)
    assert known.left_behind(row) is None
    store.replace_pin("east", former=EAST_ID, new=OTHER_ID, event=samples.event())
    known.learn(store)
    assert known.left_behind(row) == (
        f"revenue last ran on cluster {EAST_ID}, and east is another cluster now: its offsets mean other "
        "records there; "
        "tideover failover revenue"
    )
    assert known.left_behind(samples.assignment(epoch=3, placed_epoch=3)) is None
    assert known.left_behind(samples.assignment(cluster="west")) is None


def test_an_open_link_reads_a_new_pin_within_a_second(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("streaming.probe.identities.time.monotonic", lambda: now[0])
    store.pin(samples.pin(), event=samples.event())
    known = identities()
    known.refresh()
    known.learn(store)
    store.replace_pin("east", former=EAST_ID, new=OTHER_ID, event=samples.event())
    now[0] += 0.9
    known.refresh()
    known.check("east", EAST_ID)
    now[0] += 0.2
    known.refresh()
    assert "was cluster" in refused(known, EAST_ID)
    known.check("east", OTHER_ID)


def test_with_the_store_away_pinned_ids_stay_valid(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("streaming.probe.identities.time.monotonic", lambda: now[0])
    store.pin(samples.pin(), event=samples.event())
    known, kept = identities(), AwayStore(store)
    known.learn(cast("RunnerStore", kept))
    kept.away, now[0] = True, now[0] + 60
    known.refresh()
    assert "was cluster" in refused(known, OTHER_ID)
