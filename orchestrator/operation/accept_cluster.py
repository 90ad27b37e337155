"""Letting another cluster have a name: which one answers under it now, and what is left on the one that has it."""

from dataclasses import dataclass

from orchestrator.errors import Refused, UnknownName
from state.errors import Conflict
from state.model.entities import Event
from state.model.pins import Pin
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from state.store.runner_store import RunnerStore
from streaming.cluster_log import ClusterLog
from streaming.errors import WrongCluster

_LOOK_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Successor:
    """A cluster that may take a name over."""

    pin: Pin
    """Of the cluster that has it."""
    id: str
    queries: tuple[str, ...]
    """Those that stand in the cluster that has it, and are not run in this one."""


def successor_of(store: RunnerStore, settings: Tideover, log: ClusterLog, cluster: str) -> Successor | None:
    """What answers under a name in place of the cluster that has it; None where that one does.

    Raises ``Refused`` where the configuration names yet another one, ``UnknownName`` and ``KafkaError``.
    """
    pin = next((pin for pin in store.pins() if pin.cluster == cluster), None)
    if pin is None:
        raise UnknownName(
            f"no runner or controller has reached {cluster} yet",
            hint="start one: it records the cluster id that it sees",
        )
    try:
        log.describe([], timeout=_LOOK_SECONDS)
    except WrongCluster as wrong:
        seen = wrong.seen
    else:
        return None
    declared = settings.clusters[cluster].id
    if declared not in {None, seen}:
        raise Refused(
            f"{cluster} leads to cluster {seen}, but clusters.{cluster}.id says {declared}",
            hint=f"write id: {seen} there, restart runners and controllers, then run the command again",
        )
    here = tuple(row.query for row in store.assignments() if row.cluster == cluster)
    return Successor(pin=pin, id=seen, queries=here)


def accept(store: ControllerStore, successor: Successor, *, actor: str, reason: str) -> Pin:
    """Give it the name. Raises ``Conflict`` while a query moves there or from there, or where somebody was faster."""
    cluster, former = successor.pin.cluster, successor.pin.id
    event = Event(
        sequence=None,
        at=store.now(),
        kind="accept-cluster",
        query=None,
        operation=None,
        epoch=None,
        actor=actor,
        text=f"{cluster} is cluster {successor.id}, no longer {former}" + (f": {reason}" if reason else ""),
        detail={"cluster": cluster, "id": successor.id, "former": former, "reason": reason},
    )
    pin = store.replace_pin(cluster, former=former, new=successor.id, event=event)
    if pin is None:
        raise Conflict(
            f"the id of {cluster} was changed in the meantime: nothing was saved",
            hint="see tideover history, then run the command again",
        )
    return pin
