"""Who gets which notice, when: only from a leader, from where the former one was, and never in anybody's way."""

import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from orchestrator.notify.teller import GIVE_UP, LOOK_SECONDS, Notices, Teller
from orchestrator.rounds import newest_line
from state.errors import StaleTerm
from state.model.cluster_status import Verdict
from state.settings.keys import NotifyTarget
from tests.contract import samples
from tests.contract.samples import AT, term_of
from tests.memory_store import MemoryStore
from tests.notified import Receiver, target, verdict
from tests.waiting import THREAD_SECONDS, until

HANGS = 0.05


@dataclass
class World:
    """A store with a clock, and the leader."""

    now: list[datetime]
    store: MemoryStore
    term: int | None

    def teller(
        self, receiver: Receiver, given: NotifyTarget | None = None, *, send_seconds: float = THREAD_SECONDS
    ) -> Teller:
        made = Teller(
            self.store, given or target(), receiver, lambda: self.term,
            since=newest_line(self.store), send_seconds=send_seconds,
        )  # fmt: skip
        made.turn()  # from here on it reports what comes
        return made

    def happens(self, *words: Verdict, cluster: str = "east") -> None:
        for word in words:
            self.store.note(verdict(word, cluster=cluster))


@pytest.fixture
def world() -> World:
    now = [AT]
    store = MemoryStore(lambda: now[0])
    return World(now, store, term_of(store))


def test_a_new_receiver_gets_what_comes_from_now_on(world: World) -> None:
    world.happens(Verdict.DOWN)
    receiver = Receiver()
    teller = world.teller(receiver)
    teller.turn()
    assert receiver.taken == []
    world.happens(Verdict.CONFIG_ERROR)
    assert teller.turn() == LOOK_SECONDS
    teller.turn()
    assert receiver.titles == ["east is CONFIG_ERROR"]


def test_a_receiver_gets_what_happens_before_its_thread_begins(world: World) -> None:
    world.happens(Verdict.UP)
    receiver = Receiver()
    notices = Notices(world.store, [target(name="late")], {"late": receiver}, lambda: world.term)
    world.happens(Verdict.DOWN)
    notices.begin()
    try:
        until(lambda: receiver.titles == ["east is DOWN"])
    finally:
        notices.close()


def test_a_controller_that_does_not_lead_sends_no_notice(world: World) -> None:
    receiver = Receiver()
    teller = world.teller(receiver)
    world.happens(Verdict.DOWN)
    world.term = None
    teller.turn()
    assert receiver.tries == 0


def test_a_new_leader_neither_repeats_nor_forgets(world: World) -> None:
    first, second = Receiver(), Receiver()
    one = world.teller(first)
    world.happens(Verdict.DOWN)
    one.turn()
    world.happens(Verdict.DOWN, cluster="west")
    world.term = term_of(world.store, "two")
    two = Teller(world.store, target(), second, lambda: world.term, since=newest_line(world.store))
    two.turn()
    world.happens(Verdict.UP)
    two.turn()
    assert first.titles == ["east is DOWN"]
    assert [(each.state.value, each.title) for each in second.taken] == [
        ("opened", "west is DOWN"), ("closed", "east is UP"),
    ]  # fmt: skip


def test_a_leader_that_comes_back_continues_where_the_other_one_was(world: World) -> None:
    first, second = Receiver(), Receiver()
    one = world.teller(first)
    old, world.term = world.term, term_of(world.store, "two")
    two = Teller(world.store, target(), second, lambda: world.term, since=newest_line(world.store))
    two.turn()
    world.happens(Verdict.DOWN)
    two.turn()
    world.term = None
    one.turn()
    world.term = term_of(world.store, "one")
    assert world.term != old
    one.turn()
    assert (first.titles, second.titles) == ([], ["east is DOWN"])


def test_a_stale_leader_writes_nothing(world: World) -> None:
    receiver = Receiver()
    teller = world.teller(receiver)
    world.happens(Verdict.DOWN)
    term_of(world.store, "two")
    before = world.store.notice_cursors()
    with pytest.raises(StaleTerm):
        teller.turn()
    assert world.store.notice_cursors() == before


def test_a_receiver_that_fails_is_tried_again_later_and_counted(world: World) -> None:
    receiver = Receiver(error="503")
    teller = world.teller(receiver)
    world.happens(Verdict.DOWN)
    assert [teller.turn() for _ in range(9)] == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    (cursor,) = world.store.notice_cursors()
    assert (cursor.failures, cursor.failing_since, cursor.error) == (9, AT, "503")
    assert cursor.incidents == {}
    receiver.error = ""
    assert teller.turn() == LOOK_SECONDS
    (cursor,) = world.store.notice_cursors()
    assert (cursor.failures, cursor.failing_since, cursor.error) == (9, None, "")
    assert (cursor.told_at, cursor.incidents) == (AT, {"cluster:east": "east is DOWN"})
    assert receiver.titles == ["east is DOWN"]


def test_after_a_failure_a_receiver_gets_how_things_are_then(world: World) -> None:
    receiver = Receiver(error="503")
    teller = world.teller(receiver)
    world.happens(Verdict.DOWN)
    teller.turn()
    world.happens(Verdict.UP, Verdict.DEGRADED, Verdict.UP)
    world.happens(Verdict.DOWN, cluster="west")
    receiver.error = ""
    teller.turn()
    assert [(each.state.value, each.title) for each in receiver.taken] == [
        ("closed", "east is UP"), ("opened", "west is DOWN"),
    ]  # fmt: skip


def test_a_receiver_that_hangs_has_one_thread_and_gets_nothing_twice(world: World) -> None:
    receiver = Receiver(hold=threading.Event())
    teller = world.teller(receiver, send_seconds=HANGS)
    world.happens(Verdict.DOWN)
    began = time.monotonic()
    for _ in range(3):
        teller.turn()
    assert time.monotonic() - began < 30
    (cursor,) = world.store.notice_cursors()
    assert (cursor.failures, cursor.error, receiver.tries) == (3, "no answer within 0 s", 1)
    world.happens(Verdict.UP)
    assert receiver.hold is not None
    receiver.hold.set()

    def has_both() -> bool:
        teller.turn()
        return len(receiver.taken) == 2

    until(has_both, "the second notice was never sent")
    teller.turn()
    assert [(each.state.value, each.title) for each in receiver.taken] == [
        ("opened", "east is DOWN"), ("closed", "east is UP"),
    ]  # fmt: skip


def test_notices_of_more_than_a_day_are_given_up(world: World) -> None:
    receiver = Receiver(error="gone")
    teller = world.teller(receiver)
    world.happens(Verdict.DOWN)
    teller.turn()
    world.now[0] += GIVE_UP + timedelta(seconds=1)
    teller.turn()
    receiver.error = ""
    teller.turn()
    assert receiver.taken == []
    world.happens(Verdict.DOWN, cluster="west")
    teller.turn()
    assert receiver.titles == ["west is DOWN"]


def test_one_receiver_that_hangs_delays_no_other(world: World) -> None:
    stuck, well = Receiver(hold=threading.Event()), Receiver()
    targets = [target(name="stuck"), target(name="well")]
    notices = Notices(world.store, targets, {"stuck": stuck, "well": well}, lambda: world.term)
    notices.begin()
    try:
        until(lambda: len(world.store.notice_cursors()) == 2)
        world.happens(Verdict.DOWN)
        until(lambda: bool(well.taken))
        until(lambda: stuck.tries == 1)
        assert stuck.taken == []
    finally:
        assert stuck.hold is not None
        stuck.hold.set()
        notices.close()


def test_progress_over_lines_without_notices_is_rarely_written(world: World) -> None:
    teller = world.teller(Receiver())
    (before,) = world.store.notice_cursors()
    world.store.note(samples.event(kind="pause", operation=None))
    teller.turn()
    assert world.store.notice_cursors() == [before]
    for _ in range(100):
        world.store.note(samples.event(kind="pause", operation=None))
    teller.turn()
    (after,) = world.store.notice_cursors()
    assert after.sequence == before.sequence + 101
