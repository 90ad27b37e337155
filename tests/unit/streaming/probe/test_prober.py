"""The pace of looking: never piling up, second opinions while one waits, and nothing believed of a time not lived."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from state.model.cluster_status import Fault
from state.settings.keys import Detection
from streaming.clocks import Clocks
from streaming.probe.probe_result import LayerPassed, ProbeResult, Window
from streaming.probe.prober import Pace, Prober
from tests.sights import TROUBLES
from tests.waiting import until

QUICK = Detection.model_validate({"interval": "50ms", "timeout": "300ms", "failures": 3})


class Hands:
    """Two clocks that a test moves by hand."""

    def __init__(self) -> None:
        self.now, self.ahead = 100.0, 1_700_000_000.0
        self.clocks = Clocks(monotonic=lambda: self.now, wall=lambda: self.now + self.ahead)

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


# -- the pace --------------------------------------------------------------------------------------------------------
def test_a_look_is_due_every_interval() -> None:
    hands = Hands()
    pace = Pace(0.5, 1.0, hands.clocks)
    assert (pace.remaining, pace.tick()) == (0.0, None)
    hands.pass_by(0.2)
    assert pace.remaining == pytest.approx(0.3)
    hands.pass_by(0.4)
    assert (pace.remaining, pace.tick()) == (0.0, None)
    assert pace.remaining == pytest.approx(0.5), "a little late is no reason to hurry"


def test_a_loop_that_woke_up_late_says_so_once() -> None:
    hands = Hands()
    pace = Pace(0.5, 1.0, hands.clocks)
    pace.tick()
    hands.pass_by(0.5 + 2.0)
    assert "2.0 s late" in str(pace.tick())
    hands.pass_by(0.5)
    assert pace.tick() is None


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 1.5])
def test_a_clock_that_jumped_or_a_host_that_was_suspended_says_so_once(jump: float) -> None:
    hands = Hands()
    pace = Pace(0.5, 1.0, hands.clocks)
    pace.tick()
    hands.pass_by(0.5)
    hands.ahead += jump
    assert "the clock jumped" in str(pace.tick())
    hands.pass_by(0.5)
    assert pace.tick() is None


# -- the prober ------------------------------------------------------------------------------------------------------
class SlowClocks:
    """Clocks on which ten real seconds are half a second, so that a busy machine is never late; a test may jump ahead.

    The prober begins its looks by real waits.
    """

    def __init__(self) -> None:
        self.jumped = 0.0
        self.set_ahead = 0.0
        self.clocks = Clocks(monotonic=self.monotonic, wall=lambda: self.monotonic() + self.set_ahead)

    def monotonic(self) -> float:
        return time.monotonic() / 20 + self.jumped


@dataclass
class World:
    """A cluster for eyes: it answers at once, refuses at once, or stays silent until the time is up."""

    mood: str = "ok"
    stuck: bool = False
    """Whether eyes that are closed do not end."""
    opened: int = 0
    closed: int = 0
    busy: int = 0
    most: int = 0
    looks: list[int] = field(default_factory=list)
    """Which eye looked, in order."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    crowded: threading.Event = field(default_factory=threading.Event)
    """As many eyes look at once as may."""
    time: SlowClocks = field(default_factory=SlowClocks)

    def open(self) -> "FakeProbe":
        with self.lock:
            self.opened += 1
            return FakeProbe(self, self.opened)


@dataclass
class FakeProbe:
    world: World
    number: int

    def run(self, timeout: float) -> ProbeResult:
        began = self.world.time.monotonic()
        with self.world.lock:
            self.world.busy += 1
            self.world.most = max(self.world.most, self.world.busy)
            if self.world.busy >= QUICK.failures:
                self.world.crowded.set()
            self.world.looks.append(self.number)
            mood = self.world.mood
        if mood == "silent":
            self.world.crowded.wait(60.0)
            time.sleep(timeout)
        if mood == "starved":
            self.world.time.jumped += timeout + 0.6
        if mood == "broken":
            with self.world.lock:
                self.world.busy -= 1
            raise RuntimeError("a defect")
        with self.world.lock:
            self.world.busy -= 1
        trouble = TROUBLES["silent"] if mood == "starved" else TROUBLES.get(mood)
        passed: tuple[LayerPassed, ...] = ()
        return ProbeResult(began=began, seconds=self.world.time.monotonic() - began, passed=passed, trouble=trouble)

    def close(self) -> None:
        with self.world.lock:
            self.world.closed += 1

    @property
    def is_over(self) -> bool:
        return not self.world.stuck


@contextmanager
def probing(world: World) -> Iterator[Prober]:
    prober = Prober("east", world.open, QUICK, clocks=world.time.clocks)
    prober.begin()
    try:
        yield prober
    finally:
        prober.close()


def seen(prober: Prober, condition: Callable[[Window], bool]) -> Window:
    until(lambda: condition(prober.window))
    return prober.window


def test_one_eye_looks_again_and_again_while_all_is_well() -> None:
    world = World()
    with probing(world) as prober:
        seen(prober, lambda window: window.successes >= 5)
        assert (world.opened, world.most) == (1, 1)
    until(lambda: world.closed == world.opened)


def test_other_probes_begin_while_one_waits_but_never_more_than_a_row() -> None:
    world = World()
    with probing(world) as prober:
        seen(prober, lambda window: window.successes >= 2)
        world.mood = "silent"
        window = seen(prober, lambda window: window.row >= 7)
        assert world.most == QUICK.failures
        assert window.first_failed == window.failures[0].began
        world.mood = "ok"
        seen(prober, lambda window: window.successes >= 3)
        assert world.opened - world.closed <= 1 + QUICK.failures
    until(lambda: world.closed == world.opened)


def test_an_eye_that_failed_is_not_used_again() -> None:
    world = World(mood="refused")
    with probing(world) as prober:
        seen(prober, lambda window: window.row >= 4)
        assert len(set(world.looks)) == len(world.looks)


def test_a_defect_of_ours_says_nothing_of_the_cluster() -> None:
    world = World(mood="broken")
    with probing(world) as prober:
        newest = seen(prober, lambda window: window.row >= 3).newest
    assert newest is not None
    assert newest.trouble is not None
    assert (newest.trouble.kind, newest.trouble.fault) == ("internal", Fault.HERE)
    assert "a defect" in newest.text


def test_a_look_that_ended_long_after_its_time_does_not_count() -> None:
    world = World(mood="starved")
    with probing(world) as prober:
        until(lambda: len(world.looks) >= 5)
        assert prober.window.newest is None


def test_eyes_that_cannot_be_closed_are_not_made_without_end() -> None:
    world = World(mood="refused", stuck=True)
    with probing(world) as prober:
        window = seen(prober, lambda window: window.newest is not None and window.newest.trouble != TROUBLES["refused"])
        assert window.newest is not None
        assert window.newest.trouble is not None
        assert (window.newest.trouble.kind, window.newest.trouble.fault) == ("stuck", Fault.HERE)
        row, opened = window.row, world.opened
        seen(prober, lambda window: window.row >= row + 3)
        assert world.opened == opened <= 2 * QUICK.failures
        world.stuck = False
        until(lambda: world.opened > opened)


def test_a_jump_of_the_clock_voids_the_window() -> None:
    world = World()
    with probing(world) as prober:
        seen(prober, lambda window: window.successes >= 3)
        world.time.set_ahead = 3600.0
        window = seen(prober, lambda window: window.voided is not None or window.successes == 1)
        assert window.successes <= 1, "what was seen before is gone"
        seen(prober, lambda window: window.voided is None and window.successes >= 2)
