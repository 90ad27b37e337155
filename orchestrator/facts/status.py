"""Reads the status from the store, once or again and again, at a price that a store can bear every second."""

from collections.abc import Mapping, Sequence

from orchestrator.decide.desk.status import Rows, Status, status_of
from orchestrator.decide.gates.automatic import Cooldown, cooldown_of
from orchestrator.facts.current import open_operations
from orchestrator.lease import NAME
from state.model.automation import AUTOMATIC
from state.model.entities import DRILLS, Assignment, Departure, EndSample, Operation, TopicPartition
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock

SLOW_SECONDS = 5.0
"""How often what is large is read: the ends of all partitions, and the operations behind cool-downs and moves."""
EVENTS = 50
LOOKED_BACK = 1000
"""Operations that are looked through for cool-downs, and drills for the last one of each query, newest first."""


def status_now(store: ControllerStore, settings: Tideover) -> Status:
    """The status, for a verb that shows no lag: the ends of all partitions are not read. Raises ``StoreError``."""
    cooldowns, departures = cooldowns_of(store, settings), store.departures()
    return _read(store, settings, store.assignments(), cooldowns, {}, departures, newest_drills(store))


def newest_drills(store: ControllerStore) -> dict[str, Operation]:
    """By query, the drill that began last, open or not. Raises ``StoreError``."""
    return {drill.query: drill for drill in reversed(store.operations(kinds=DRILLS, limit=LOOKED_BACK))}


def cooldowns_of(store: ControllerStore, settings: Tideover) -> dict[str, Cooldown]:
    """By query, what is acknowledged or not after automatic moves, over or not."""
    moved: dict[str, list[Operation]] = {}
    for operation in store.operations(limit=LOOKED_BACK):
        moved.setdefault(operation.query, []).append(operation)
    found: dict[str, Cooldown] = {}
    for query, operations in moved.items():
        if query not in settings.queries or not any(each.actor == AUTOMATIC for each in operations):
            continue
        seen = frozenset(given.operation for given in store.acknowledgements(query))
        newest_first = sorted(operations, key=lambda each: each.epoch, reverse=True)
        cooldown = cooldown_of(newest_first, seen, settings.policy_of(query).cooldown)
        if cooldown is not None:
            found[query] = cooldown
    return found


class StatusReader:
    """For one process; what it shows of one moment comes from one ``read``."""

    def __init__(self, store: ControllerStore, settings: Tideover, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._slow_until = clock.monotonic()
        self._cooldowns: Mapping[str, Cooldown] = {}
        self._departures: Sequence[Departure] = ()
        self._ends: dict[str, Mapping[TopicPartition, EndSample]] = {}
        self._drills: Mapping[str, Operation] = {}

    def read(self) -> Status:
        """The status now. Raises ``StoreError``."""
        store = self._store
        assignments = store.assignments()
        if self._clock.monotonic() >= self._slow_until:
            self._cooldowns = cooldowns_of(store, self._settings)
            self._departures = store.departures()
            self._ends = {cluster: store.ends(cluster) for cluster in {each.cluster for each in assignments}}
            self._drills = newest_drills(store)
            self._slow_until = self._clock.monotonic() + SLOW_SECONDS
        return _read(store, self._settings, assignments, self._cooldowns, self._ends, self._departures, self._drills)


def _read(
    store: ControllerStore,
    settings: Tideover,
    assignments: Sequence[Assignment],
    cooldowns: Mapping[str, Cooldown],
    ends: Mapping[str, Mapping[TopicPartition, EndSample]],
    departures: Sequence[Departure],
    drills: Mapping[str, Operation],
) -> Status:
    rows = Rows(
        at=store.now(),
        lease=store.leader(NAME),
        probe_reports=store.probe_reports(),
        statuses=store.cluster_statuses(),
        assignments=assignments,
        facts=store.query_facts(),
        ends=ends,
        operations=open_operations(store),
        departures=departures,
        pauses=store.pauses(),
        cooldowns=cooldowns,
        requests=store.open_requests(),
        readiness=store.readiness(),
        events=store.history(limit=EVENTS),
        drills=drills,
        notices=store.notice_cursors() if settings.notify.targets else (),
    )
    return status_of(rows, settings)
