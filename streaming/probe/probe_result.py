"""The result of one probe of a cluster, and the newest ones together. Pure.

``streaming.kafka.probe`` makes them from real brokers, tests and simulations make their own.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import takewhile
from typing import Protocol

from state.model.cluster_status import ELSEWHERE, Fault, Layer, ProbeReport


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerPassed:
    """A layer that answered."""

    layer: Layer
    ms: float
    """Milliseconds that this layer took on its own."""
    kept: bool = False
    """Its connection was open before: nothing new was shown of it but that it still carries answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeFailure:
    """Why the next layer was not reached."""

    kind: str
    """One stable word: ``refused``, ``silent``, ``reset``, ``unreachable``, ``name``, ``resolver``, ``credential``,
    ``permission``, ``identity``, ``not-here``, ``error``, ``stuck``, ``internal``."""
    text: str
    fault: Fault
    retriable: bool
    """Whether looking again can help with nothing changed on our side."""

    @classmethod
    def of_stranger(cls, text: str, *, is_declared: bool) -> "ProbeFailure":
        """Another cluster answered. One that is declared behind the same endpoint is no mistake of ours."""
        if is_declared:
            return cls(kind=ELSEWHERE, text=text, fault=Fault.HERE, retriable=True)
        return cls(kind="identity", text=text, fault=Fault.OURS, retriable=False)

    def or_elsewhere(self, before: "ProbeFailure | None") -> "ProbeFailure":
        """What a failed look says of a cluster whose endpoint led elsewhere before: silence there is not its own."""
        if before is None or self.fault is not Fault.THEIRS:
            return self
        return replace(before, text=f"{before.text}; it does not answer: {self.text}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """How whole a cluster is that answers."""

    brokers: int
    """Those that the cluster names, and those that hold replicas of the topics of interest."""
    brokers_silent: int
    partitions: int
    leaderless: int
    unreadable: int
    under_replicated: int
    under_min_isr: int | None
    """None where ``min.insync.replicas`` may not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeResult:
    """One look at one cluster.

    How far it came, how long each layer took, and what it met.
    """

    began: float
    """On this process's monotonic clock. What the look proves, it proves for a moment after this one."""
    seconds: float
    delayed: float = 0.0
    """Of these, how many the look's connections waited for their turn (``connections_per_second``)."""
    passed: tuple[LayerPassed, ...] = ()
    trouble: ProbeFailure | None = None
    """None when every layer answered."""
    cluster_id: str | None = None
    """What the cluster that answered calls itself; None when none did."""
    health: Health | None = None
    """None when the look did not come so far."""
    notes: tuple[str, ...] = ()
    """What else is worth a sentence."""

    @property
    def ok(self) -> bool:
        return self.trouble is None

    @property
    def layer(self) -> Layer | None:
        """The last layer that answered."""
        return self.passed[-1].layer if self.passed else None

    @property
    def latency_ms(self) -> float | None:
        """Round trip of the metadata question; None when it was not answered."""
        return next((each.ms for each in self.passed if each.layer is Layer.METADATA), None)

    @property
    def text(self) -> str:
        return self.trouble.text if self.trouble else "; ".join(self.notes)


class ClusterProbe(Protocol):
    """What looks at one cluster, again and again; one look at a time."""

    def run(self, timeout: float) -> ProbeResult:
        """One look within ``timeout`` seconds, beside what it waits for its turn.

        Never raises for what a cluster or its settings do.
        """

    def close(self) -> None:
        """Give up the connections; returns within about a second."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more; a name server that does not answer can hold a closed one up."""


KEPT = 16
"""Failures that are kept with their times; more are only counted."""
_COUNTS = tuple(each.name for each in fields(Health))


@dataclass(frozen=True, kw_only=True, slots=True)
class Voided:
    """From when on nothing counts that was seen before, and why."""

    at: float
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """What one observer saw lately; ``after`` and ``void`` make the next one. Times are the process's monotonic.

    It is reduced to what a verdict needs. Looks may overlap, so they end in another order than they began. They are put
    in order by when they *began*, because that is from when on an answer proves something. A failure that began before
    the newest success says nothing.
    """

    trusted: int
    """Successes in a row after which it is forgotten that there were failures; also the failures kept at least."""
    newest_ok: ProbeResult | None = None
    successes: int = 0
    """In a row; 0 while the newest look failed."""
    failures: tuple[ProbeResult, ...] = ()
    """The newest failures in a row, oldest first; empty when the newest look succeeded."""
    row: int = 0
    """How many failures in a row, with those that are not kept any more."""
    first_failed: float | None = None
    longest_row: int = 0
    """Since it last succeeded ``trusted`` times in a row."""
    voided: Voided | None = None
    """None again after a success, or after ``trusted`` failures: then it counts again."""

    def after(self, sight: ProbeResult) -> "Window":
        """The window with one more look, wherever in the order it belongs."""
        if self.voided is not None and sight.began < self.voided.at:
            return self
        return self._succeeded(sight) if sight.ok else self._failed(sight)

    def void(self, at: float, why: str) -> "Window":
        """Forget everything: what was seen before ``at`` cannot be trusted, neither for nor against the cluster."""
        return Window(trusted=self.trusted, voided=Voided(at=at, why=why))

    @property
    def newest(self) -> ProbeResult | None:
        """The look that began last."""
        return self.failures[-1] if self.failures else self.newest_ok

    def repeats(self, before: "Window", *, now: float, limit: float) -> bool:
        """Whether nothing has happened since: both look at a cluster that is trusted, and find it as whole.

        A newest look that ended more than ``limit`` seconds ago repeats nothing.
        """
        newest, old = self.newest_ok, before.newest_ok
        if newest is None or old is None or min(self.successes, before.successes) < self.trusted:
            return False
        is_late = now - newest.began - newest.seconds > limit
        return not is_late and (newest.health, newest.notes) == (old.health, old.notes)

    def _succeeded(self, sight: ProbeResult) -> "Window":
        if self.newest_ok is not None and sight.began <= self.newest_ok.began:
            return self
        later = tuple(each for each in self.failures if each.began > sight.began)
        if later:
            return replace(
                self, newest_ok=sight, failures=later, row=len(later), first_failed=later[0].began, voided=None
            )
        successes = self.successes + 1
        longest_row = 0 if successes >= self.trusted else self.longest_row
        return Window(trusted=self.trusted, newest_ok=sight, successes=successes, longest_row=longest_row)

    def _failed(self, sight: ProbeResult) -> "Window":
        if self.newest_ok is not None and sight.began <= self.newest_ok.began:
            return self
        failures = tuple(sorted((*self.failures, sight), key=lambda each: each.began))[-max(KEPT, self.trusted) :]
        row = self.row + 1
        return replace(
            self,
            successes=0,
            failures=failures,
            row=row,
            first_failed=sight.began if self.first_failed is None else min(self.first_failed, sight.began),
            longest_row=max(self.longest_row, row),
            voided=None if row >= self.trusted else self.voided,
        )


def probe_report(
    window: Window, *, cluster: str, viewpoint: str, instance: str, at: Callable[[float], datetime]
) -> ProbeReport | None:
    """The window as a row for the store, or nothing before the first look; ``at`` turns monotonic into store time."""
    newest, voided = window.newest, window.voided
    if newest is None:
        return None if voided is None else _nothing(voided, cluster, viewpoint, instance, at)
    trouble, health = newest.trouble, newest.health
    return ProbeReport(
        cluster=cluster,
        viewpoint=viewpoint,
        instance=instance,
        layer=newest.layer,
        fault=None if trouble is None else trouble.fault,
        kind=None if trouble is None else trouble.kind,
        text=newest.text,
        retriable=None if trouble is None else trouble.retriable,
        latency_ms=newest.latency_ms,
        cluster_id=newest.cluster_id,
        layers_ms={each.layer.value: round(each.ms, 3) for each in newest.passed},
        **({} if health is None else {name: getattr(health, name) for name in _COUNTS}),
        successes_in_a_row=window.successes,
        failures_in_a_row=window.row,
        failed_at=tuple(at(each.began) for each in _against(window.failures)),
        first_failed_at=None if window.first_failed is None else at(window.first_failed),
        longest_row=window.longest_row,
        last_ok_at=None if window.newest_ok is None else at(window.newest_ok.began),
        voided_at=None if voided is None else at(voided.at),
        seen_at=at(newest.began + newest.seconds),
    )


def _against(failures: tuple[ProbeResult, ...]) -> tuple[ProbeResult, ...]:
    """The newest failures without a break that are the cluster's, or those at which its endpoint led elsewhere.

    Of the latter only looks that another cluster answered: one that nothing answered shows no turn.
    """
    if _is_elsewhere(failures[-1:]):
        row = list(takewhile(lambda each: _is_elsewhere((each,)), reversed(failures)))
        return tuple(each for each in reversed(row) if each.cluster_id is not None)
    row = list(takewhile(lambda each: each.trouble and each.trouble.fault is Fault.THEIRS, reversed(failures)))
    return tuple(reversed(row))


def _is_elsewhere(looks: tuple[ProbeResult, ...]) -> bool:
    return any(each.trouble is not None and each.trouble.kind == ELSEWHERE for each in looks)


def _nothing(
    voided: Voided, cluster: str, viewpoint: str, instance: str, at: Callable[[float], datetime]
) -> ProbeReport:
    return ProbeReport(
        cluster=cluster,
        viewpoint=viewpoint,
        instance=instance,
        layer=None,
        fault=None,
        kind="voided",
        text=voided.why,
        retriable=True,
        latency_ms=None,
        voided_at=at(voided.at),
        seen_at=at(voided.at),
    )
