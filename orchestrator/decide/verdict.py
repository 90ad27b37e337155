"""What to believe of a cluster: the looks of this controller, weighed against what everybody else saw; pure.

The question is never "how many say so" but "who has seen it live, and when". A look that failed counts against the
cluster only if it *began* after the newest sign of life, whichever observer saw it: a sign of life
starts the count again. And it comes late: heartbeats are written once a second, and looks that are refused fail twice
as fast. So an observer that has seen it live is given the time to say so again. That is until its next word is due, or
until it fails itself. But where it saw the cluster live *after* our looks began to fail, our looks are what is in
doubt. Then it must have failed as often as we, or have been silent for long. Beyond that, a silent observer has no part
in it. So a cluster that only this process cannot see is never DOWN, and a runner that died with its cluster delays the
verdict by no more than a look. Majorities were considered and rejected: with one controller and one runner there is
none, and a runner in the dead site would vote for ever.

An endpoint that leads to another cluster is weighed in the same way, because it may turn for one observer earlier than
for another. A query is not moved while its runner still reaches its cluster. Only heartbeats are no witness of an
endpoint: a replicator writes them by an address of its own.

The rules stand in one table; the first that holds gives the verdict.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from state.model.cluster_status import ELSEWHERE, GONE, WELL, ClusterStatus, Fault, ProbeReport, Verdict
from state.model.entities import Event
from state.settings.keys import Detection

_FUTURE = timedelta(seconds=1)
"""A sign of life from further ahead than this comes from a clock that was set back since, and is none."""
_SLACK = timedelta(seconds=1)


class Judgement(NamedTuple):
    """A verdict with its reasons, the most important first."""

    verdict: Verdict
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """Everything that a rule may look at."""

    mine: ProbeReport
    others: tuple[ProbeReport, ...]
    now: datetime
    detection: Detection

    @property
    def witnesses(self) -> list[ProbeReport]:
        """All others who have seen the cluster live, the newest first."""
        known = [each for each in self.others if each.last_ok_at is not None and each.last_ok_at <= self.now + _FUTURE]
        return sorted(known, key=_produced_at, reverse=True)

    @property
    def witness(self) -> ProbeReport | None:
        """Whose sign of life is the newest."""
        return next(iter(self.witnesses), None)

    @property
    def awaited(self) -> ProbeReport | None:
        """Who has seen it live, and whose silence says nothing yet."""
        return next((each for each in self.witnesses if self._may_speak(each)), None)

    @property
    def against(self) -> int:
        """Failures in a row of this process that are the cluster's, and began after every sign of life."""
        seen = None if self.witness is None else self.witness.last_ok_at
        return sum(1 for each in self.mine.failed_at if seen is None or each > seen)

    def contradicts(self, other: ProbeReport) -> bool:
        """Whether it has seen the cluster live since the looks of this process fail."""
        return self.mine.first_failed_at is not None and _produced_at(other) >= self.mine.first_failed_at

    def until(self, other: ProbeReport) -> datetime:
        """How long a witness is waited for."""
        due = other.due_at or _produced_at(other) + self.detection.timeout + 2 * self.detection.interval
        return due + stale_after(self.detection) if self.contradicts(other) else due

    def _may_speak(self, other: ProbeReport) -> bool:
        enough = self.detection.failures if self.contradicts(other) else 1
        return self.now < self.until(other) and _denials(other) < enough

    @property
    def is_late(self) -> bool:
        """Whether the newest look is too old to speak for now."""
        return self.now - self.mine.seen_at > stale_after(self.detection)


def stale_after(detection: Detection) -> timedelta:
    """How old an observer's newest look may be until it counts as silent."""
    return detection.timeout + 2 * detection.interval + _SLACK


def judge_cluster(
    mine: ProbeReport | None, others: Iterable[ProbeReport], now: datetime, detection: Detection
) -> Judgement:
    """The verdict on one cluster. ``now`` and all probe reports are on the store's clock.

    ``mine`` is what this process saw; ``others`` what every other observer reported of the same cluster, however old.
    """
    if mine is None:
        return Judgement(Verdict.UNKNOWN, ("not probed yet",))
    view = View(mine=mine, others=tuple(others), now=now, detection=detection)
    for rule in RULES:
        judgement = rule(view)
        if judgement is not None:
            return Judgement(judgement.verdict, judgement.reasons + tuple(_says(view, each) for each in view.others))
    raise AssertionError("the last rule always holds")


def _late(view: View) -> Judgement | None:
    if not view.is_late:
        return None
    age, limit = (view.now - view.mine.seen_at).total_seconds(), stale_after(view.detection).total_seconds()
    return _one(Verdict.UNKNOWN, f"the newest probe is {age:.1f} s old, the limit is {limit:.1f} s")


def _voided(view: View) -> Judgement | None:
    if view.mine.voided_at is None:
        return None
    return _one(Verdict.UNKNOWN, f"probes from before {_clock(view.mine.voided_at)} do not count: {_why(view.mine)}")


def _not_here(view: View) -> Judgement | None:
    """As many looks as DOWN needs, and no other observer has reached the cluster at its address since."""
    if view.mine.kind != ELSEWHERE:
        return None
    why, wanted = _why(view.mine), view.detection.failures
    there = replace(view, others=tuple(each for each in view.others if not each.is_of_replicator))
    if there.against >= wanted and there.awaited is None:
        return _one(Verdict.NOT_HERE, why)
    witness, looks = there.witness, len(view.mine.failed_at)
    if looks < wanted or witness is None:
        return _one(Verdict.SUSPECT, f"{why}; NOT_HERE needs {wanted} such looks in a row, and this is number {looks}")
    seen = f"{witness.viewpoint} saw {view.mine.cluster} alive at {_clock(_produced_at(witness))}"
    if there.contradicts(witness):
        return _one(Verdict.UNREACHABLE_FROM_HERE, f"{why}; but {seen}")
    return _one(Verdict.SUSPECT, f"{why}; {seen}; waiting for its next report")


def _refused(view: View) -> Judgement | None:
    if view.mine.fault is not Fault.OURS:
        return None
    return _one(
        Verdict.CONFIG_ERROR,
        f"{_why(view.mine)}: correct our configuration; this says nothing about the health of the cluster",
    )


def _returning(view: View) -> Judgement | None:
    mine, wanted = view.mine, view.detection.failures
    if mine.fault is not None or mine.longest_row < wanted or mine.successes_in_a_row >= wanted:
        return None
    return _one(Verdict.SUSPECT, f"it answers again, {mine.successes_in_a_row} of {wanted} times in a row")


def _degraded(view: View) -> Judgement | None:
    if view.mine.fault is not None or not (ailments := _ailments(view.mine)):
        return None
    return Judgement(Verdict.DEGRADED, ailments)


def _up(view: View) -> Judgement | None:
    if view.mine.fault is not None:
        return None
    latency = "" if view.mine.latency_ms is None else f" in {view.mine.latency_ms:.0f} ms"
    return _one(Verdict.UP, f"it answers{latency}" + (f"; {view.mine.text}" if view.mine.text else ""))


def _down(view: View) -> Judgement | None:
    wanted = view.detection.failures
    if view.mine.fault is not Fault.THEIRS or view.against < wanted or view.awaited is not None:
        return None
    return _one(Verdict.DOWN, f"{_row(view.mine)}: {_why(view.mine)}; no other observer has seen it alive after that")


_LIVES = frozenset({"throttled", "authentication"})
"""Kinds of failures by which a cluster, or what checks credentials for it, wants us to come again."""


def _only_from_here(view: View) -> Judgement | None:
    mine, wanted = view.mine, view.detection.failures
    if mine.failures_in_a_row < wanted:
        return None
    if mine.fault is Fault.HERE:
        where = "" if mine.kind in _LIVES else "; the cause is on this host"
        return _one(Verdict.UNREACHABLE_FROM_HERE, f"{_row(mine)}: {_why(mine)}{where}")
    if len(mine.failed_at) < wanted or view.witness is None or not view.contradicts(view.witness):
        return None
    seen = f"{view.witness.viewpoint} saw it alive at {_clock(_produced_at(view.witness))}"
    return _one(Verdict.UNREACHABLE_FROM_HERE, f"{_row(mine)}: {_why(mine)}; but {seen}")


def _suspect(view: View) -> Judgement | None:
    failed, awaited = f"{_row(view.mine)}: {_why(view.mine)}", view.awaited
    if view.against < view.detection.failures or awaited is None:
        return _one(Verdict.SUSPECT, f"{failed}; DOWN needs {view.detection.failures} in a row")
    word = f"{awaited.viewpoint} saw it alive at {_clock(_produced_at(awaited))}; waiting for its next report"
    return _one(Verdict.SUSPECT, f"{failed}; {word}")


RULES: tuple[Callable[[View], Judgement | None], ...] = (
    _late,
    _voided,
    _not_here,
    _refused,
    _returning,
    _degraded,
    _up,
    _down,
    _only_from_here,
    _suspect,
)


def form(
    cluster: str,
    judgement: Judgement,
    mine: ProbeReport | None,
    *,
    standing: ClusterStatus | None,
    now: datetime,
    term: int,
) -> ClusterStatus:
    """The judgement as a row for the store."""
    same = standing is not None and standing.verdict is judgement.verdict
    return ClusterStatus(
        cluster=cluster,
        verdict=judgement.verdict,
        since=standing.since if standing and same else now,
        down_since=_down_since(judgement.verdict, standing, now),
        reasons=judgement.reasons,
        first_failed_at=None if mine is None else mine.first_failed_at,
        leaderless=None if mine is None else mine.leaderless,
        unreadable=None if mine is None else mine.unreadable,
        under_replicated=None if mine is None else mine.under_replicated,
        under_min_isr=None if mine is None else mine.under_min_isr,
        decided_at=now,
        term=term,
    )


def _down_since(verdict: Verdict, standing: ClusterStatus | None, now: datetime) -> datetime | None:
    """Only a cluster that was seen well has come back; not knowing is no return. One that is not here is gone, too.

    Where the store's clock was set back it is down since now: else it would seem to go down after a pause that ended.
    """
    if verdict in WELL:
        return None
    before = None if standing is None else standing.down_since
    if before is None:
        return now if verdict in GONE else None
    return min(before, now)


def verdict_event(
    status: ClusterStatus, *, standing: ClusterStatus | None, actor: str, queries: Sequence[str] = ()
) -> Event:
    """The line of history for a verdict that has changed; ``queries`` read the cluster."""
    before = None if standing is None else standing.verdict.value
    return Event(
        sequence=None,
        at=status.decided_at,
        kind="verdict",
        query=None,
        operation=None,
        epoch=None,
        actor=actor,
        text=f"{status.cluster} is {status.verdict}: {status.reasons[0]}",
        detail={
            "cluster": status.cluster,
            "verdict": status.verdict.value,
            "before": before,
            "reasons": list(status.reasons),
            "queries": list(queries),
            "first_failed_at": None if status.first_failed_at is None else status.first_failed_at.isoformat(),
        },
    )


def _one(verdict: Verdict, reason: str) -> Judgement:
    return Judgement(verdict, (reason,))


def _ailments(seen: ProbeReport) -> tuple[str, ...]:
    counted = (
        (seen.brokers_silent, seen.brokers, "broker", "no answer"),
        (seen.leaderless, seen.partitions, "partition", "no leader"),
        (seen.unreadable, seen.partitions, "partition", "cannot be read"),
        (seen.under_min_isr, seen.partitions, "partition", "fewer replicas in sync than a write needs"),
        (seen.under_replicated, seen.partitions, "partition", "replicas that lag"),
    )
    return tuple(
        f"{count} of {whole} {noun}{'' if whole == 1 else 's'}: {what}" for count, whole, noun, what in counted if count
    )


def _row(seen: ProbeReport) -> str:
    since = "" if seen.first_failed_at is None else f" since {_clock(seen.first_failed_at)}"
    return f"{seen.failures_in_a_row} {'probe' if seen.failures_in_a_row == 1 else 'probes'} failed in a row{since}"


def _why(seen: ProbeReport) -> str:
    return seen.text or seen.kind or "no answer"


def _says(view: View, other: ProbeReport) -> str:
    """What another observer adds, in one sentence."""
    name, alive_at = other.viewpoint, other.last_ok_at
    never = "has seen no heartbeat yet" if name.startswith("replicator:") else "never saw it alive"
    when = never if alive_at is None else f"saw it alive at {_clock(alive_at)}"
    age = (view.now - other.seen_at).total_seconds()
    if age > stale_after(view.detection).total_seconds():
        return f"{name} {when}, and has been silent for {age:.0f} s"
    if other.fault is None:
        return f"{name} {when}"
    return f"{name} {when}: {_why(other)}" if alive_at is None else f"{name} {when}, but not now: {_why(other)}"


def _produced_at(seen: ProbeReport) -> datetime:
    if seen.last_ok_at is None:
        raise ValueError(f"{seen.viewpoint} has seen no sign of life")
    return seen.last_ok_at


def _denials(seen: ProbeReport) -> int:
    """Looks of a witness that failed since its sign of life; none where that came by another way than by its looks."""
    if seen.first_failed_at is not None and seen.first_failed_at <= _produced_at(seen):
        return 0
    return len(seen.failed_at)


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}.{at.microsecond // 100_000}"
