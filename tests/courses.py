"""What several viewpoints see of one cluster, played in simulated time through the product's own eyes and verdicts.

Everybody looks, writes and reports at a phase of his own, with a delay and a clock of his own: nothing is aligned.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from orchestrator.decide.verdict import judge_cluster
from state.model.cluster_status import ProbeReport, Verdict
from streaming.clocks import Clocks
from streaming.probe.heartbeats import Heartbeats
from streaming.probe.probe_result import ProbeResult, Window, probe_report
from tests.memory_log import MemoryCluster
from tests.sights import DETECTION, at, sight

INTERVAL = DETECTION.interval.total_seconds()
TICK = 0.1
"""How often a leader judges."""
CALM = -4.0
"""When everybody has begun to look; the trouble begins at 0."""
TOPIC = "east.heartbeats"

Trigger = tuple[float, Literal["mine", "runner", "judge"], ProbeResult | None]


@dataclass(frozen=True, kw_only=True)
class Replicator:
    """Writes heartbeats to the cluster and carries them to the other one, where the controller reads them."""

    phase: float = 0.0
    period: float = 1.0
    delay: Callable[[int], float] = lambda _: 0.1
    """From writing the heartbeat of a number, counted from 0, to where it can be read."""
    skew: float = 0.0
    """How far its clock is ahead."""
    read_phase: float = 0.0
    stops: float | None = None
    """When it dies."""


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Looks at the cluster, too, and reports to the store."""

    phase: float = 0.0
    look: float = 0.01
    """Seconds that a look takes at a cluster that answers."""
    way: float = 0.0
    """From the end of a look until the report can be read."""
    misses: Callable[[float], bool] = lambda _: False
    """Whether a look that begins then fails at a cluster that lives."""
    dies: float | None = None


@dataclass(frozen=True, kw_only=True)
class Course:
    """From 0 on the controller does not reach the cluster; which dies at ``dies``, or lives on."""

    until: float
    dies: float | None = None
    trouble: str = "refused"
    phase: float = 0.0
    """Of the controller's looks."""
    replicator: Replicator | None = None
    runner: Runner | None = None

    def verdicts(self) -> list[tuple[float, Verdict]]:
        """Every change of the verdict, and when, from the cut on."""
        changes: list[tuple[float, Verdict]] = []
        windows = dict.fromkeys(("mine", "runner"), Window(trusted=DETECTION.failures))
        heard = None if self.replicator is None else _Hearing(self.replicator, self._beats(self.replicator))
        for now, what, look in sorted(self._happenings(), key=lambda each: each[:2]):
            if look is not None:
                windows[what] = windows[what].after(look)
                continue
            mine, reported = _seen(windows["mine"], "controller:one"), _seen(windows["runner"], "runner:a")
            others = [
                each for each in (reported, None if heard is None else heard.probe_report(now)) if each is not None
            ]
            verdict = judge_cluster(mine, others, at(now), DETECTION).verdict
            if not changes or changes[-1][1] is not verdict:
                changes.append((now, verdict))
        return changes

    @property
    def down(self) -> float | None:
        """When DOWN was first given."""
        return next((when for when, verdict in self.verdicts() if verdict is Verdict.DOWN), None)

    def _lives(self, when: float) -> bool:
        return self.dies is None or when < self.dies

    def _happenings(self) -> Iterable[Trigger]:
        """Looks when their end is known, and the leader's ticks."""
        for number in range(round(self.until / TICK)):
            yield number * TICK, "judge", None
        for began in _beginnings(self.phase, self.until):
            look = sight(began, "ok" if began < 0.0 else self.trouble)
            yield began + look.seconds, "mine", look
        if (runner := self.runner) is not None:
            for began in _beginnings(runner.phase, self.until if runner.dies is None else runner.dies):
                sees = self._lives(began) and not runner.misses(began)
                look = sight(began, "ok" if sees else self.trouble)
                yield began + (runner.look if sees else look.seconds) + runner.way, "runner", look

    def _beats(self, replicator: Replicator) -> list[tuple[float, float]]:
        """When each heartbeat can be read, and its own time."""
        first, last = round(CALM / replicator.period), round(self.until / replicator.period)
        written = [replicator.phase + number * replicator.period for number in range(first, last + 1)]
        return [
            (when + replicator.delay(number), when + replicator.skew)
            for number, when in enumerate(written)
            if self._lives(when) and (replicator.stops is None or when < replicator.stops)
        ]


class _Hearing:
    """The product's reader of heartbeats, in simulated time."""

    def __init__(self, replicator: Replicator, beats: list[tuple[float, float]]) -> None:
        self._now = self._due = CALM + replicator.read_phase
        self._beats = sorted(beats)
        self._west = MemoryCluster("west")
        self._west.create(TOPIC)
        clocks = Clocks(monotonic=lambda: self._now)
        self._heartbeats = Heartbeats("east", "west", TOPIC, lambda _: self._west, DETECTION, clocks)

    def probe_report(self, now: float) -> ProbeReport | None:
        """What it has to say at a time; called with ever later ones."""
        while self._due <= now:
            self._now = self._due
            while self._beats and self._beats[0][0] <= self._now:
                self._west.append(TOPIC, 0, round(at(self._beats.pop(0)[1]).timestamp() * 1000), bytes(16))
            self._due += self._heartbeats.hear()
        self._now = now
        return self._heartbeats.probe_report("1", at)


def _beginnings(phase: float, until: float) -> list[float]:
    return [CALM + phase + number * INTERVAL for number in range(max(0, round((until - CALM) / INTERVAL)))]


def _seen(window: Window, viewpoint: str) -> ProbeReport | None:
    return probe_report(window, cluster="east", viewpoint=viewpoint, instance="1", at=at)
