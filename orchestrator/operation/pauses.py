"""What a person orders automatic mode to do, written with its line of history: pause, resume, acknowledge.

The command line and the HTTP page write the same rows by the same functions. No term is needed: nothing of this moves
a query, and it must be possible while no controller leads. Every time is the store's, as it is that of the gates.

What automatic mode judges by is read from the store before it requests a move, and again before the move is begun.
Between the two a leader may die, freeze, or be ordered to leave the query alone; so what was judged once is never acted
upon, only what is judged now.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from orchestrator.decide.gates.automatic import AutomaticFacts, cooldown_of
from orchestrator.decide.move_facts import MoveFacts
from orchestrator.errors import Refused
from state.model.automation import AUTOMATIC, EVERY, Acknowledgement, Pause
from state.model.cluster_status import ClusterStatus
from state.model.entities import Event, Operation
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore


def pause(store: ControllerStore, scope: str, *, until: datetime | None, actor: str, reason: str) -> Pause:
    """Keep automatic mode from a query or from all (``EVERY``). Raises ``ValueError`` for an end that is over."""
    made = Pause(scope=scope, since=store.now(), until=until, reason=reason, actor=actor)
    end = f"until {until:%Y-%m-%d %H:%M:%S} UTC" if until else "until tideover resume"
    text = f"automatic failover of {_whom(scope)} is paused {end}"
    store.pause(made, event=_event("pause", scope, made.since, actor, text, {"reason": reason}))
    return made


def resume(store: ControllerStore, scope: str, *, actor: str, reason: str) -> Pause | None:
    """End a pause before its time; None when none is in force. What was down before stays a person's to move."""
    at, text = store.now(), f"automatic failover of {_whom(scope)} is resumed"
    return store.resume(scope, at=at, event=_event("resume", scope, at, actor, text, {"reason": reason}))


def acknowledge(
    store: ControllerStore, settings: Tideover, query: str, *, actor: str, reason: str
) -> Acknowledgement | None:
    """End the cool-down of a query; None when there is nothing to acknowledge. Raises ``Refused`` while it moves."""
    operations = store.operations(query=query)
    under_way = next((each for each in operations if each.is_open and each.actor == AUTOMATIC), None)
    if under_way is not None:
        raise Refused(f"operation {under_way.id} of {query} is still running: acknowledge it after it has ended")
    seen = frozenset(given.operation for given in store.acknowledgements(query))
    cooldown = cooldown_of(operations, seen, settings.policy_of(query).cooldown)
    if cooldown is None:
        return None
    given = Acknowledgement(operation=cooldown.operation, query=query, actor=actor, reason=reason, at=store.now())
    text = f"operation {cooldown.operation} is acknowledged: automatic failover of {query} may act again"
    seen_now = next(each for each in operations if each.id == cooldown.operation)
    event = _event("ack", query, given.at, actor, text, {"reason": reason}, operation=seen_now)
    return given if store.acknowledge(given, event=event) else None


def still_paused(pauses: Sequence[Pause], now: datetime) -> list[Pause]:
    """Pauses in force."""
    return [each for each in pauses if each.is_in_force(now)]


def _whom(scope: str) -> str:
    return "all queries" if scope == EVERY else scope


def _event(
    kind: str,
    scope: str,
    at: datetime,
    actor: str,
    text: str,
    detail: Mapping[str, object],
    *,
    operation: Operation | None = None,
) -> Event:
    return Event(
        sequence=None,
        at=at,
        kind=kind,
        query=None if scope == EVERY else scope,
        operation=operation.id if operation else None,
        epoch=operation.epoch if operation else None,
        actor=actor,
        text=text + (f": {detail['reason']}" if detail.get("reason") else ""),
        detail=detail,
    )


def automatic_facts_of(
    store: ControllerStore, facts: MoveFacts, *, statuses: Mapping[str, ClusterStatus], term: int
) -> AutomaticFacts:
    """The facts for one automatic move as they are now, for the process that leads. Raises ``StoreError``."""
    return AutomaticFacts(
        facts=facts,
        now=store.now(),
        term=term,
        statuses=statuses,
        pauses=tuple(store.pauses()),
        operations=tuple(store.operations(query=facts.query)),
        acknowledged=frozenset(each.operation for each in store.acknowledgements(facts.query)),
    )
