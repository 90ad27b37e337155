"""Watching the clusters: what this process sees, what others saw, and the verdict."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from orchestrator.decide.verdict import form, judge_cluster, stale_after, verdict_event
from orchestrator.rounds import apart
from state.model.cluster_status import ClusterStatus, ProbeReport, Verdict
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clocks, Drift, store_time
from streaming.cluster_log import ClusterLog
from streaming.probe.heartbeats import Heartbeats
from streaming.probe.identities import Identities
from streaming.probe.probe_result import ClusterProbe, Window, probe_report
from streaming.probe.prober import Prober


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeWindows:
    """What was seen of the clusters at the last look here, on this process's monotonic clock; costs nothing."""

    at: float
    windows: Mapping[str, Window]
    """By cluster; the same object as long as no look has ended."""

    def is_same(self, before: "ProbeWindows") -> bool:
        """Whether no look has ended since."""
        return all(window is before.windows[cluster] for cluster, window in self.windows.items())

    def repeats(self, before: "ProbeWindows", limit: float) -> bool:
        """Whether every cluster is well, and as it was; a newest look may be ``limit`` seconds old."""
        return all(
            window.repeats(before.windows[cluster], now=self.at, limit=limit)
            for cluster, window in self.windows.items()
        )


class Observer:
    """The eyes of one controller.

    ``eyes`` opens probes, by cluster; ``open_log`` opens, by cluster, a log to read heartbeats from.

    A prober for each cluster, and the replicators' heartbeats. It looks all the time, leading or not, so that a
    controller that takes over needs no warm-up. It decides nothing: what it hands out are probe reports on the store's
    clock, for the store and for ``orchestrator.decide.verdict``.
    """

    def __init__(
        self,
        settings: Tideover,
        *,
        name: str,
        instance: str,
        eyes: Mapping[str, Callable[[], ClusterProbe]],
        open_log: Callable[[str], ClusterLog],
        clocks: Clocks | None = None,
    ) -> None:
        self.viewpoint = f"controller:{name}"
        self._instance = instance
        self._clocks = clocks or Clocks()
        self._probers = {
            cluster: Prober(cluster, open_probe, settings.detection, clocks=self._clocks)
            for cluster, open_probe in eyes.items()
        }
        self._heartbeats = [
            Heartbeats(route.source, route.target, route.heartbeats, open_log, settings.detection, self._clocks)
            for route in settings.routes
            if route.heartbeats is not None
        ]

    def begin(self) -> None:
        """Begin to look."""
        for prober in self._probers.values():
            prober.begin()
        for heartbeats in self._heartbeats:
            heartbeats.begin()

    def close(self) -> None:
        """Begin no more looks; what is under way ends by its own deadline."""
        for prober in self._probers.values():
            prober.close()
        for heartbeats in self._heartbeats:
            heartbeats.close()

    def latest(self) -> ProbeWindows:
        """What is seen now, for a caller that wants to know whether anything has happened."""
        windows = {cluster: prober.window for cluster, prober in self._probers.items()}
        return ProbeWindows(at=self._clocks.monotonic(), windows=windows)

    def probe_reports(self, store: ControllerStore) -> list[ProbeReport]:
        """What is seen now, of every cluster that was looked at. Raises ``StoreError``: the times are on its clock."""
        at = store_time(store, self._clocks.monotonic)
        seen = [
            probe_report(prober.window, cluster=cluster, viewpoint=self.viewpoint, instance=self._instance, at=at)
            for cluster, prober in self._probers.items()
        ]
        seen += [heartbeats.probe_report(self._instance, at) for heartbeats in self._heartbeats]
        return [each for each in seen if each is not None]


REST_SECONDS = 2.0
"""How often verdicts are given again while every cluster is well and nothing happens."""
REPEAT_SECONDS = 1.0
"""How often a verdict that stays is written again, so that its reasons and its age can be read."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Given:
    """The verdicts as they were given last."""

    term: int
    windows: ProbeWindows
    believed: Mapping[str, ClusterStatus]


class ClusterWatch:
    """The watch of one controller; its observer must have begun. Called by one thread.

    Each tick reports what is seen here, reads what others saw, and, while leading, says what is believed.

    A leader is called ten times a second, and most of the time nothing has happened since: then the verdict stays, and
    the store is neither read nor written. While every cluster is well, no other report can change a verdict. So it is
    written only as often as its readers need, who take a verdict for present that is 10 s old (``VERDICT_VALID``). A
    controller that does not lead reports every look. The leader that loses sight of a cluster counts half-seconds, and
    a fresh sign of life has to be there by then.
    """

    def __init__(
        self, store: ControllerStore, settings: Tideover, observer: Observer, *, identities: Identities, actor: str
    ) -> None:
        """``identities`` is what the observer's eyes call; here it is kept in step with the store."""
        self._store = store
        self._identities = identities
        self._settings = settings
        self._observer = observer
        self._actor = actor
        self._limit = stale_after(settings.detection).total_seconds()
        self._interval = settings.detection.interval.total_seconds()
        self._given: _Given | None = None
        self._written_at = 0.0
        self._began: datetime | None = None
        """The store's time when this process first judged; what was stored under its name until then is of one before
        it.
        """
        self._namesakes: dict[str, ProbeReport] = {}
        """By cluster, what another process of the same name saw last."""
        self._defects: dict[str, str] = {}
        """By cluster, what kept it from being judged last time."""
        self._drift = Drift(self._interval / 2)
        self._set: tuple[float, datetime, float] | None = None
        """When the store's clock was seen to be set, on our monotonic clock and on itself, and by how many seconds."""

    def report(self) -> None:
        """Report to the store what is seen here; a follower does no more. Raises ``StoreError``."""
        self._given = None
        self._now()
        self._identities.keep(self._store, actor=self._actor)
        self._store.save_probe_reports(self._observer.probe_reports(self._store))

    def give_verdicts(self, term: int) -> Mapping[str, ClusterStatus]:
        """Judge every cluster on what all viewpoints saw until now, and keep the verdicts under this term.

        The same mapping again as long as there is nothing new to judge. Raises ``StaleTerm`` when another process leads
        (at the latest after ``REST_SECONDS``), and other ``StoreError``: then nothing new is believed.
        """
        windows = self._observer.latest()
        if self._given is not None and self._is_same(self._given, windows, term):
            return self._given.believed
        before, self._given = self._given, None
        is_due = before is None or windows.at - self._written_at >= REPEAT_SECONDS
        believed = self._judge(term, is_due=is_due)
        if is_due:
            self._written_at = windows.at
        self._given = _Given(term=term, windows=windows, believed=believed)
        return believed

    def _is_same(self, given: _Given, windows: ProbeWindows, term: int) -> bool:
        """Whether judging again would say the same."""
        age = windows.at - given.windows.at
        if term != given.term or age >= REST_SECONDS:
            return False
        return (age < self._interval and windows.is_same(given.windows)) or windows.repeats(given.windows, self._limit)

    def _judge(self, term: int, *, is_due: bool) -> Mapping[str, ClusterStatus]:
        """Judge on what is in the store and in this process; write what is news, and all of it when it is due."""
        own = self._observer.probe_reports(self._store)
        stored, now = self._store.probe_reports(), self._now()
        self._note_namesakes(stored, own, now)
        if is_due:
            self._store.save_probe_reports(own)
            self._identities.keep(self._store, actor=self._actor)
        seen = _newest(stored, own)
        standing = {status.cluster: status for status in self._store.cluster_statuses()}
        mine = {each.cluster: each for each in own if each.viewpoint == self._observer.viewpoint}
        believed: dict[str, ClusterStatus] = {}
        for cluster in self._settings.clusters:
            wrong: list[Exception] = []
            with apart(wrong):
                others = [
                    each for each in seen if each.cluster == cluster and each.viewpoint != self._observer.viewpoint
                ]
                others += [each for each in self._namesakes.values() if each.cluster == cluster]
                probe_report, before = self._trusted(mine.get(cluster)), standing.get(cluster)
                judgement = judge_cluster(probe_report, others, now, self._settings.detection)
                status = form(cluster, judgement, probe_report, standing=before, now=now, term=term)
                if is_due or before is None or (before.verdict, before.term) != (status.verdict, term):
                    there = self._left_there(status, before)
                    event = verdict_event(status, standing=before, actor=self._actor, queries=there)
                    self._store.record_status(status, term=term, event=event)
                believed[cluster] = status
            self._report_defect(cluster, wrong)
        return believed

    def _left_there(self, status: ClusterStatus, before: ClusterStatus | None) -> list[str]:
        """The queries that read a cluster from which its endpoint has just turned away."""
        is_news = before is None or before.verdict is not status.verdict
        if status.verdict is not Verdict.NOT_HERE or not is_news:
            return []
        return [each.query for each in self._store.assignments() if each.cluster == status.cluster]

    def _report_defect(self, cluster: str, wrong: Sequence[Exception]) -> None:
        """A cluster that cannot be judged has no verdict, which moves nothing; the others have theirs."""
        said = repr(wrong[0]) if wrong else ""
        if said and self._defects.get(cluster) != said:
            log.error("a cluster cannot be judged; the others are, and this one is tried again", cluster=cluster,
                      error=said, exc_info=wrong[0])  # fmt: skip
        self._defects[cluster] = said

    def _note_namesakes(self, stored: Iterable[ProbeReport], own: Iterable[ProbeReport], now: datetime) -> None:
        """Keep what another process says under this one's name, before it is written over; report it once.

        A controller's name is its observer's name, and has one row for each cluster. Where a second controller runs
        under the same name, each writes over what the other saw. So what was read of the other is kept here, weighed
        like anybody's word, and the mistake is reported.
        """
        self._began = self._began or now
        ours = {each.instance for each in own}
        for each in stored:
            if each.viewpoint != self._observer.viewpoint or each.instance in ours or each.seen_at <= self._began:
                continue
            if not self._namesakes:
                log.warning("another controller has the same name", name=each.viewpoint, instance=each.instance)
            self._namesakes[each.cluster] = each

    def _now(self) -> datetime:
        """The store's time; whether it was set since the last question is kept."""
        before = self._observer.latest().at
        now = self._store.now()
        answered = self._observer.latest().at
        jump = self._drift.jumped(now, requested=before, answered=answered)
        if jump:
            self._set = answered, now, jump
        elif self._set is not None and answered - self._set[0] > self._limit:
            self._set = None
        return now

    def _trusted(self, mine: ProbeReport | None) -> ProbeReport | None:
        """What was seen here, void while the others' words may be of before the store's clock was set.

        When the store's clock is set, what others saw lies in another time than what is seen now. It may seem to be
        older than looks that failed long after it. So nothing is believed until everybody has had time to speak again.
        """
        if mine is None or self._set is None:
            return mine
        _, at, jump = self._set
        return replace(mine, voided_at=at, text=f"the store's clock jumped by {jump:+.1f} s")


def _newest(stored: Iterable[ProbeReport], own: Iterable[ProbeReport]) -> Iterable[ProbeReport]:
    """One probe report of each observer, in order: this process need not write to the store first what it wants to
    read.

    A replicator is heard by every controller: one that has just begun has heard nothing yet, and hides no other's.
    """
    found = {(each.cluster, each.viewpoint): each for each in stored}
    for each in own:
        known = found.get((each.cluster, each.viewpoint))
        if known is None or _standing(known) < _standing(each):
            found[each.cluster, each.viewpoint] = each
    return [found[key] for key in sorted(found)]


def _standing(seen: ProbeReport) -> tuple[bool, datetime, datetime]:
    return seen.last_ok_at is not None, seen.last_ok_at or seen.seen_at, seen.seen_at
