"""One tick of the watch: report what is seen here, read what others saw, and, while leading, say what is believed.

A leader is called ten times a second, and most of the time nothing has happened since: then what was believed stands,
and the store is neither asked nor told. While every cluster is well, nobody else's word can change a verdict, so the
store hears of it only as often as its readers need, who take a verdict for present that is 10 s old
(``VERDICT_STANDS``). Whoever does not lead tells of every look: the leader that loses sight of a cluster counts
half-seconds, and fresh evidence has to be there by then.

A controller's name is its viewpoint, and has one row for each cluster. Where a second controller runs under the same
name, each writes over what the other saw; so what was read of the other is kept here, weighed like anybody's word, and
the mistake is told.

When the store's clock is set, what others saw lies in another time than what is seen now, and may seem to be older than
looks that failed long after it. So nothing is believed until everybody has had time to speak anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from orchestrator.decide.verdict import form, judge, stale_after, told
from orchestrator.observe import Glance, Observer
from state.ports import Store
from state.settings import Tideover
from state.sighting import Belief, Sighting
from streaming.clocks import Drift

REST_SECONDS = 2.0
"""How often verdicts are given anew while every cluster is well and nothing happens."""
REPEAT_SECONDS = 1.0
"""How often a verdict that stays is written again, so that its reasons and its age can be read."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Given:
    """The verdicts as they were given last."""

    term: int
    glance: Glance
    believed: Mapping[str, Belief]


class Watching:
    """The watch of one controller; its observer must have begun. Called by one thread."""

    def __init__(self, store: Store, settings: Tideover, observer: Observer, *, actor: str) -> None:
        self._store = store
        self._settings = settings
        self._observer = observer
        self._actor = actor
        self._limit = stale_after(settings.detection).total_seconds()
        self._interval = settings.detection.interval.total_seconds()
        self._given: _Given | None = None
        self._written_at = 0.0
        self._began: datetime | None = None
        """The store's time when this process first judged; what stood under its name until then is of one before it."""
        self._namesakes: dict[str, Sighting] = {}
        """By cluster, what another process of the same name saw last."""
        self._drift = Drift(self._interval / 2)
        self._set: tuple[float, datetime, float] | None = None
        """When the store's clock was seen to be set, on our monotonic clock and on itself, and by how many seconds."""

    def report(self) -> None:
        """Tell the store what is seen here; a follower does no more. Raises ``StoreError``."""
        self._given = None
        self._now()
        self._store.see(self._observer.sightings(self._store))

    def believe(self, term: int) -> Mapping[str, Belief]:
        """Judge every cluster on what all viewpoints saw until now, and keep the verdicts under this term.

        The same mapping again as long as there is nothing new to judge. Raises ``StaleTerm`` when somebody else leads
        (at the latest after ``REST_SECONDS``), and other ``StoreError``: then nothing new is believed.
        """
        glance = self._observer.glance()
        if self._given is not None and self._stands(self._given, glance, term):
            return self._given.believed
        before, self._given = self._given, None
        is_due = before is None or glance.at - self._written_at >= REPEAT_SECONDS
        believed = self._judge(term, is_due=is_due)
        if is_due:
            self._written_at = glance.at
        self._given = _Given(term=term, glance=glance, believed=believed)
        return believed

    def _stands(self, given: _Given, glance: Glance, term: int) -> bool:
        """Whether judging again would say the same."""
        age = glance.at - given.glance.at
        if term != given.term or age >= REST_SECONDS:
            return False
        return (age < self._interval and glance.is_same(given.glance)) or glance.repeats(given.glance, self._limit)

    def _judge(self, term: int, *, is_due: bool) -> Mapping[str, Belief]:
        """Judge on what is in the store and in this process; write what is news, and all of it when it is due."""
        own = self._observer.sightings(self._store)
        stored, now = self._store.sightings(), self._now()
        self._heed_namesakes(stored, own, now)
        if is_due:
            self._store.see(own)
        seen = _newest(stored, own)
        standing = {belief.cluster: belief for belief in self._store.beliefs()}
        mine = {each.cluster: each for each in own if each.viewpoint == self._observer.viewpoint}
        believed: dict[str, Belief] = {}
        for cluster in self._settings.clusters:
            others = [each for each in seen if each.cluster == cluster and each.viewpoint != self._observer.viewpoint]
            others += [each for each in self._namesakes.values() if each.cluster == cluster]
            sighting, before = self._trusted(mine.get(cluster)), standing.get(cluster)
            judgement = judge(sighting, others, now, self._settings.detection)
            belief = form(cluster, judgement, sighting, standing=before, now=now, term=term)
            if is_due or before is None or (before.verdict, before.term) != (belief.verdict, term):
                self._store.believe(belief, term=term, event=told(belief, standing=before, actor=self._actor))
            believed[cluster] = belief
        return believed

    def _heed_namesakes(self, stored: Iterable[Sighting], own: Iterable[Sighting], now: datetime) -> None:
        """Keep what another process says under this one's name, before it is written over; tell of it once."""
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
        asked = self._observer.glance().at
        now = self._store.now()
        answered = self._observer.glance().at
        jump = self._drift.jumped(now, asked=asked, answered=answered)
        if jump:
            self._set = answered, now, jump
        elif self._set is not None and answered - self._set[0] > self._limit:
            self._set = None
        return now

    def _trusted(self, mine: Sighting | None) -> Sighting | None:
        """What was seen here, void while the others' words may be of before the store's clock was set."""
        if mine is None or self._set is None:
            return mine
        _, at, jump = self._set
        return replace(mine, voided_at=at, text=f"the store's clock was set by {jump:+.1f} s")


def _newest(stored: Iterable[Sighting], own: Iterable[Sighting]) -> Iterable[Sighting]:
    """One sighting of each viewpoint, in order: this process need not tell the store first what it wants to hear.

    A replicator is heard by every controller: one that has just begun has no evidence yet, and hides nobody else's.
    """
    found = {(each.cluster, each.viewpoint): each for each in stored}
    for each in own:
        known = found.get((each.cluster, each.viewpoint))
        if known is None or _standing(known) < _standing(each):
            found[each.cluster, each.viewpoint] = each
    return [found[key] for key in sorted(found)]


def _standing(seen: Sighting) -> tuple[bool, datetime, datetime]:
    return seen.last_ok_at is not None, seen.last_ok_at or seen.seen_at, seen.seen_at
