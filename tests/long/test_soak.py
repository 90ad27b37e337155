"""Twenty minutes of everything that is no failure: pauses and cuts shorter than the limits, and load. Nothing moves.

``SOAK_MINUTES=n`` changes the length and ``SEED=n`` what is drawn; the report ``soak``.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from reports.origin import origin
from reports.result import Section
from tests.long.notes import conclude
from tests.long.unattended import Unattended, cut_off, number, stopped, unattended
from tests.namespace import Namespace

pytestmark = [pytest.mark.long, pytest.mark.timeout(14400)]

COMMAND = "SEED={seed} SOAK_MINUTES={minutes} make reports ONLY=soak"
ABOUT = """
Two Kafka clusters, MirrorMaker 2, four queries under load, automatic mode, two controllers. Strikes are random. The
primary's broker freezes for less than the limit, once or several times in a row. One controller or both freeze for 1 to
6 s, the broker at times with them. No packet passes between the controllers and the primary for 0.3 to 10 s. Every core
is busy for 2 to 5 s.
"""
AFTER = (
    "Verdicts on the primary during the strikes: {verdicts}. Moves: {moves}. Then the primary was killed, and every"
    " query moved once: lost 0, repeated 0."
)

PAUSE_SECONDS = (0.2, 0.9)
"""By default an outage below 1 s, and a freeze below 2 s, is never DOWN: ``state.settings.keys.Detection``."""
FREEZE_SECONDS = (0.5, 1.7)
LATE_SECONDS = (1.0, 6.0)
"""A frozen controller loses its window, and not its lease."""
LOAD_SECONDS = (2.0, 5.0)
CUT_SECONDS = (0.3, 10.0)


def test_faults_shorter_than_the_limits_never_move_a_query(tmp_path: Path) -> None:
    on = origin()
    seed, minutes = number("SEED", random.SystemRandom().randrange(10**6)), number("SOAK_MINUTES", 20)
    draw, done = random.Random(seed), Counter[str]()
    with unattended(tmp_path, controllers=()) as world, cut_off(world, ("one", "two")) as cables:
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until:
            strike = draw.choice([_freeze_broker, _pause_controllers, _stutter, _load, _cut])
            strike(world, cables, draw)
            done[strike.__name__.strip("_").replace("_", " ")] += 1
            time.sleep(draw.uniform(2.0, 8.0))
            assert world.held() == [], f"seed {seed}: {dict(done)}"
            assert [each.poll() for each in world.controllers.values()] == [None, None], "both live"
        world.until("both are UP", lambda: world.verdicts("east")[-1:] in ([], ["UP"]))
        verdicts, moves = Counter(world.verdicts("east")), len(world.held())
        command = COMMAND.format(seed=seed, minutes=minutes)
        after = AFTER.format(
            verdicts=", ".join(f"{name} {times}" for name, times in verdicts.most_common()), moves=moves
        )
        assert "DOWN" not in world.verdicts("east")
        world.until("every query runs", lambda: world.is_on("east"))
        world.assert_left_alone()
        world.lab("kill", "east")
        world.until("what is a failure still moves them", world.has_moved)
        world.assert_moved_once()
        world.assert_nothing_lost()
    strikes = tuple((name, str(times)) for name, times in sorted(done.items()))
    section = Section(texts=(ABOUT.strip(),), columns=("strike", "times"), rows=strikes, after=(after,))
    conclude(on, "soak", [section], command=command, exposed="not counted", count=done.total(), wrong=0)


def _freeze_broker(world: Unattended, cables: Namespace, draw: random.Random) -> None:
    """The primary's broker is frozen for less than it takes to be DOWN."""
    _still(world, draw.uniform(*FREEZE_SECONDS))


def _stutter(world: Unattended, cables: Namespace, draw: random.Random) -> None:
    """Short cuts one after the other, with a breath between them."""
    for _ in range(draw.randint(2, 5)):
        _still(world, draw.uniform(*PAUSE_SECONDS))
        time.sleep(draw.uniform(1.0, 2.0))


def _pause_controllers(world: Unattended, cables: Namespace, draw: random.Random) -> None:
    """One controller or both stand still; the broker may, too, in the same moment."""
    paused = draw.sample(sorted(world.controllers), draw.randint(1, 2))
    with stopped(*(world.controllers[name] for name in paused)):
        if draw.random() < 0.5:
            _still(world, draw.uniform(*PAUSE_SECONDS))
        time.sleep(draw.uniform(*LATE_SECONDS))


def _cut(world: Unattended, cables: Namespace, draw: random.Random) -> None:
    """No packet goes between the controllers and the primary; the runner still sees it, so this may last."""
    cables.cut("east")
    time.sleep(draw.uniform(*CUT_SECONDS))
    cables.mend("east")


def _load(world: Unattended, cables: Namespace, draw: random.Random) -> None:
    """Every core is busy for a while."""
    _burn(os.cpu_count() or 1, draw.uniform(*LOAD_SECONDS))


def _still(world: Unattended, seconds: float) -> None:
    """By signals sent from here: the start of a command would make the pause longer."""
    pid = world.broker("east-1")
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def _burn(cores: int, seconds: float) -> None:
    """Programs that do nothing, as fast as they can."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    time.sleep(seconds)
    for process in busy:
        process.kill()
        process.wait()
