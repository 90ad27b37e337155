"""Looking at how things stand, again and again, at a price that a store can bear every second."""

from collections.abc import Mapping

from orchestrator import steering
from orchestrator.clock import Clock
from orchestrator.decide.cooldown import Cooldown
from orchestrator.decide.situation import Rows, Situation, situation_of
from orchestrator.desk import open_operations
from orchestrator.lease import NAME
from state.model import EndSample, TopicPartition
from state.ports import Store
from state.settings import Tideover

SLOW_SECONDS = 5.0
"""How often what is large is read: the ends of all partitions, and the operations behind cool-downs."""
EVENTS = 50


class Survey:
    """For one process that looks on."""

    def __init__(self, store: Store, settings: Tideover, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._slow_until = clock.monotonic()
        self._cooldowns: Mapping[str, Cooldown] = {}
        self._ends: dict[str, Mapping[TopicPartition, EndSample]] = {}

    def take(self) -> Situation:
        """How things stand now. Raises ``StoreError``."""
        store = self._store
        assignments = store.assignments()
        if self._clock.monotonic() >= self._slow_until:
            self._cooldowns = steering.cooldowns(store, self._settings)
            self._ends = {cluster: store.ends(cluster) for cluster in {each.cluster for each in assignments}}
            self._slow_until = self._clock.monotonic() + SLOW_SECONDS
        rows = Rows(
            at=store.now(),
            lease=store.leader(NAME),
            sightings=store.sightings(),
            beliefs=store.beliefs(),
            assignments=assignments,
            facts=store.query_facts(),
            ends=self._ends,
            operations=open_operations(store),
            pauses=store.pauses(),
            cooldowns=self._cooldowns,
            requests=store.open_requests(),
            readiness=store.readiness(),
            events=store.history(limit=EVENTS),
        )
        return situation_of(rows, self._settings)
