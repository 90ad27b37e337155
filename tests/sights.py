"""Looks and probe reports for tests, on one time axis: seconds after ``START``, on every clock alike."""

from datetime import UTC, datetime, timedelta
from typing import Any

from state.model.cluster_status import Fault, Layer, ProbeReport
from state.settings.keys import Detection
from streaming.probe.probe_result import Health, LayerPassed, ProbeFailure, ProbeResult, Window, probe_report

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DETECTION = Detection()

TROUBLES = {
    "refused": ProbeFailure(kind="refused", text="connection refused", fault=Fault.THEIRS, retriable=True),
    "silent": ProbeFailure(kind="silent", text="no answer in 1 s", fault=Fault.THEIRS, retriable=True),
    "credential": ProbeFailure(kind="credential", text="SASL: bad password", fault=Fault.OURS, retriable=False),
    "identity": ProbeFailure(kind="identity", text="east leads to cluster B", fault=Fault.OURS, retriable=False),
    "not-here": ProbeFailure(kind="not-here", text="endpoint dr leads to west now", fault=Fault.HERE, retriable=True),
    "unanswered": ProbeFailure(kind="not-here", text="it does not answer", fault=Fault.HERE, retriable=True),
    "no-network": ProbeFailure(kind="network", text="network is unreachable", fault=Fault.HERE, retriable=True),
}
WHOLE = {"brokers": 3, "brokers_silent": 0, "partitions": 12, "leaderless": 0, "unreadable": 0, "under_replicated": 0,
         "under_min_isr": 0}  # fmt: skip


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def sight(seconds: float, what: str = "ok", **health: Any) -> ProbeResult:
    """A look that began then; ``silent`` takes a second, all else a hundredth."""
    trouble = TROUBLES.get(what)
    passed = () if trouble else (LayerPassed(layer=Layer.METADATA, ms=3.0), LayerPassed(layer=Layer.READ, ms=1.0))
    return ProbeResult(
        began=seconds,
        seconds=1.0 if what == "silent" else 0.01,
        passed=passed,
        trouble=trouble,
        cluster_id="B" if what == "not-here" else None,
        health=None if trouble else Health(**(WHOLE | health)),
    )


def window(*sights: ProbeResult, trusted: int = DETECTION.failures) -> Window:
    seen = Window(trusted=trusted)
    for each in sights:
        seen = seen.after(each)
    return seen


def row(script: str) -> tuple[ProbeResult, ...]:
    """``"ok@0 refused@0.5"`` as looks."""
    return tuple(sight(float(when), what) for what, _, when in (word.partition("@") for word in script.split()))


def seen(source: Window | str, viewpoint: str = "controller:one", cluster: str = "east") -> ProbeReport | None:
    """A window, or a script of looks, as a probe report."""
    window_ = window(*row(source)) if isinstance(source, str) else source
    return probe_report(window_, cluster=cluster, viewpoint=viewpoint, instance="1", at=at)
