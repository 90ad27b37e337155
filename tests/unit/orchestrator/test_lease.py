"""Leading: taken once, renewed by the monotonic clock, lost in time, and taken over from the dead."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.errors import NotLeading
from orchestrator.lease import MARGIN, NAME, RENEW_EVERY, TTL, Leadership, is_gone, is_led, this_process
from state.errors import StoreUnavailable
from state.model.entities import Lease
from tests.memory_store import MemoryStore


class Clock:
    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 31, tzinfo=UTC) + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed

    def wait(self, seconds: float) -> None:
        self.passed += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock.now)


def test_only_one_leads(store: MemoryStore, clock: Clock) -> None:
    one, two = Leadership(store, clock, "one"), Leadership(store, clock, "two")
    assert one.take()
    assert not two.take()
    assert one.term >= 1
    with pytest.raises(NotLeading):
        _ = two.term


def test_a_holder_that_keeps_at_it_leads_on_with_the_same_term(store: MemoryStore, clock: Clock) -> None:
    lead = Leadership(store, clock, "one")
    assert lead.take()
    term = lead.term
    for _ in range(60):
        clock.wait(1)
        assert lead.term == term
    assert not Leadership(store, clock, "two").take()


def test_a_frozen_holder_stops_acting_before_anybody_else_may_start(store: MemoryStore, clock: Clock) -> None:
    lead = Leadership(store, clock, "one")
    assert lead.take()
    clock.wait(TTL.total_seconds() - MARGIN)
    assert not Leadership(store, clock, "two").take()
    with pytest.raises(NotLeading, match="ran out"):
        lead.keep()


def test_the_next_leader_has_a_new_term_and_the_old_one_notices(store: MemoryStore, clock: Clock) -> None:
    one, two = Leadership(store, clock, "one"), Leadership(store, clock, "two")
    assert one.take()
    term = one.term
    clock.wait(TTL.total_seconds() + 0.1)
    assert two.take()
    assert two.term > term
    with pytest.raises(NotLeading):
        one.keep()
    assert not one.take()


def test_a_renewal_that_finds_another_holder_ends_the_lead(store: MemoryStore, clock: Clock) -> None:
    lead = Leadership(store, clock, "one")
    assert lead.take()
    assert store.seize(NAME, "two", "one", TTL) is not None
    clock.wait(RENEW_EVERY)
    with pytest.raises(NotLeading, match="another process"):
        lead.keep()


def test_a_renewal_under_another_term_ends_the_lead(store: MemoryStore, clock: Clock) -> None:
    lead = Leadership(store, clock, "one")
    assert lead.take()
    assert store.seize(NAME, "two", "one", TTL) is not None
    assert store.seize(NAME, "one", "two", TTL) is not None
    clock.wait(RENEW_EVERY)
    with pytest.raises(NotLeading, match="another process"):
        lead.keep()


def test_a_lead_that_another_thread_gave_up_has_no_term(
    store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = Leadership(store, clock, "one")
    assert lead.take()
    monkeypatch.setattr(lead, "keep", lead.give_up)
    with pytest.raises(NotLeading):
        _ = lead.term


def test_there_is_a_leader_while_its_lease_runs_and_its_process_lives(store: MemoryStore, clock: Clock) -> None:
    assert not is_led(store)
    assert Leadership(store, clock, "one").take()
    assert is_led(store)
    clock.wait(TTL.total_seconds() + 0.1)
    assert not is_led(store)
    host = this_process().rsplit(":", 2)[0]
    assert Leadership(store, clock, f"{host}:{os.getpid()}:1").take()
    assert not is_led(store), "that process is dead"


def test_giving_up_lets_the_next_lead_at_once(store: MemoryStore, clock: Clock) -> None:
    one, two = Leadership(store, clock, "one"), Leadership(store, clock, "two")
    assert one.take()
    one.give_up()
    assert two.take()


def test_a_lease_given_up_is_free_when_the_stores_clock_is_set_back(clock: Clock) -> None:
    set_back = timedelta(0)
    store = MemoryStore(lambda: clock.now() - set_back)
    one, two = Leadership(store, clock, "one"), Leadership(store, clock, "two")
    assert one.take()
    term = one.term
    one.give_up()
    set_back = timedelta(hours=1)
    assert two.take()
    assert two.term > term


def test_a_dead_process_of_this_host_is_succeeded_at_once(store: MemoryStore, clock: Clock) -> None:
    host = this_process().rsplit(":", 2)[0]
    dead = Leadership(store, clock, f"{host}:{os.getpid()}:1")
    assert dead.take()
    assert Leadership(store, clock, this_process()).take()


def test_this_process_is_not_gone() -> None:
    assert not is_gone(this_process())


@pytest.mark.parametrize("name", ["", "a:b", "elsewhere/1:boot:1:1", "h:b:x:y", "h:b:x:1", "/:b:1:1"])
def test_a_process_that_cannot_be_proven_gone_is_not_taken_for_dead(name: str) -> None:
    assert not is_gone(name)


def test_without_a_process_file_system_nothing_is_proven(tmp_path: Path) -> None:
    assert not is_gone(this_process(tmp_path), tmp_path)
    assert not is_gone(f"{this_process(tmp_path).rsplit(':', 3)[0]}:b:1:1", tmp_path)


class Away(MemoryStore):
    away = False

    def lead(self, name: str, holder: str, ttl: timedelta) -> Lease | None:
        if self.away:
            raise StoreUnavailable("the store is locked")
        return super().lead(name, holder, ttl)


def test_a_follower_tries_to_lead_twice_a_second(clock: Clock) -> None:
    store = Away(clock.now)
    one, two = Leadership(store, clock, "one"), Leadership(store, clock, "two")
    assert one.holds()
    assert not two.holds()
    one.give_up()
    assert not two.holds(), "asked a moment ago"
    clock.wait(0.5)
    assert two.holds()
    assert not one.holds()


def test_a_lead_does_not_stand_while_the_store_is_away(clock: Clock) -> None:
    store = Away(clock.now)
    one = Leadership(store, clock, "one")
    store.away = True
    assert not one.holds()
    store.away = False
    clock.wait(0.5)
    assert one.holds()
    term = one.term
    store.away = True
    clock.wait(2.5)
    assert not one.holds(), "the renewal that is due has no answer"
    store.away = False
    assert one.holds(), "the lease itself has not run out"
    assert one.term == term


def test_the_lease_counts_from_its_request_however_slow_the_answer(clock: Clock) -> None:
    class Slow(MemoryStore):
        def lead(self, name: str, holder: str, ttl: timedelta) -> Lease | None:
            taken = super().lead(name, holder, ttl)
            clock.wait(5)
            return taken

    lead = Leadership(Slow(clock.now), clock, "one")
    assert lead.take()
    clock.wait(TTL.total_seconds() - MARGIN - 5)
    with pytest.raises(NotLeading, match="ran out"):
        lead.keep()
