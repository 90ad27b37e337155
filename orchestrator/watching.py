"""One tick of the watch: report what is seen here, read what others saw, and, while leading, say what is believed."""

from collections.abc import Mapping
from datetime import timedelta

from orchestrator.decide.verdict import form, judge, told
from orchestrator.observe import Observer
from state.ports import Store
from state.settings import Tideover
from state.sighting import Belief

_REPEAT = timedelta(seconds=1)
"""How often a verdict that stays is written again, so that its reasons and its age can be read."""


class Watching:
    """The watch of one controller; its observer must have begun."""

    def __init__(self, store: Store, settings: Tideover, observer: Observer, *, actor: str) -> None:
        self._store = store
        self._settings = settings
        self._observer = observer
        self._actor = actor

    def report(self) -> None:
        """Tell the store what is seen here; a follower does no more. Raises ``StoreError``."""
        self._store.see(self._observer.sightings(self._store))

    def believe(self, term: int) -> Mapping[str, Belief]:
        """Report, judge every cluster on what all viewpoints saw until now, and keep the verdicts under this term.

        Raises ``StaleTerm`` when somebody else leads (at the latest within a second), and other ``StoreError``: then
        nothing new is believed.
        """
        own = self._observer.sightings(self._store)
        self._store.see(own)
        seen, now = self._store.sightings(), self._store.now()
        standing = {belief.cluster: belief for belief in self._store.beliefs()}
        mine = {each.cluster: each for each in own if each.viewpoint == self._observer.viewpoint}
        believed: dict[str, Belief] = {}
        for cluster in self._settings.clusters:
            others = [
                each for each in seen if each.cluster == cluster and each.viewpoint != self._observer.viewpoint
            ]  # fmt: skip
            sighting, before = mine.get(cluster), standing.get(cluster)
            judgement = judge(sighting, others, now, self._settings.detection)
            belief = form(cluster, judgement, sighting, standing=before, now=now, term=term)
            if _is_news(belief, before):
                self._store.believe(belief, term=term, event=told(belief, standing=before, actor=self._actor))
            believed[cluster] = belief
        return believed


def _is_news(belief: Belief, standing: Belief | None) -> bool:
    """Whether to write it: another verdict, another leader, or the same one for a while."""
    if standing is None or (standing.verdict, standing.term) != (belief.verdict, belief.term):
        return True
    return not timedelta(0) <= belief.decided_at - standing.decided_at < _REPEAT
