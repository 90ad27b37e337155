"""The requests that a verb, a schedule or automatic failover writes; ``RequestHandler`` takes them.

A request is a row: the leading controller takes it, and it can be retried under its id.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from orchestrator.decide.gates.gate import bind_consents
from orchestrator.decide.operation.turns import WAVE, waves_of
from orchestrator.facts.current import run_of
from state.messages import Process
from state.model.entities import OperationKind, Request
from state.store.controller_store import ControllerStore

TAKEN_WITHIN = timedelta(minutes=2)
"""How long a request may wait to be taken when no verb waits for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestSpec:
    """What an operator or a program wants, for one or several queries."""

    kind: OperationKind
    targets: Mapping[str, str | None]
    """Query to the cluster it shall run on; None leaves it to the handler. A verb that was typed names it: typed twice,
    it must not move the query on to the next cluster."""
    expect_active: Mapping[str, str]
    """Query to the cluster on which the requester saw it: a query that is elsewhere by then is not moved. A query
    that is not named is moved from wherever it is."""
    actor: str
    reason: str
    consents: tuple[str, ...]
    """As they were typed; ``unfenced`` is recorded with the run that it was given for."""
    runs: Mapping[str, Process | None] | None = None
    """By query, the run that was seen when that was typed; None: the one that is seen when the request is written."""
    within: timedelta = TAKEN_WITHIN
    """How long it may wait to be taken: what was requested long ago may be the wrong thing to do now."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """What the kind needs beside the target, in JSON's own types; the same for each query."""
    waves: Sequence[int] = ()
    """How many of the queries move in the first wave, the second and so on, the rest in one more; none: all at once."""


def new_id(at: datetime) -> str:
    """An id that sorts by time and can be read out: ``261121-083525-3fa92c71``.

    Its 32 random bits make two equal ids unlikely (1 in a million for 100 requests within one second), and the store
    refuses the second of them with ``Conflict``.
    """
    return f"{at:%y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def submit(store: ControllerStore, spec: RequestSpec, *, term: int | None = None) -> tuple[Request, ...]:
    """Write one request for each query, all of one group. A leader writes with its term, and raises ``StaleTerm``.

    Who is upstream has to stand first among the targets: another leader may take a request before the next is written.
    Its time is the store's, for operations begin with it and are put in order by it: a host's clock may be wrong.
    """
    requests = requests_of(store, spec)
    for request in requests:
        store.add_request(request, term=term)
    return requests


def requests_of(
    store: ControllerStore, spec: RequestSpec, *, name: str | None = None, group: str | None = None
) -> tuple[Request, ...]:
    """The requests that ``submit`` would write now.

    Their ids begin with ``name``, else with a new one. Several calls may share a ``group``, never a name: no caller has
    to know which numbers are taken, also where the answer of an earlier write was lost.
    """
    at, last = store.now(), len(spec.targets)
    name = name or new_id(at)
    waves = waves_of(spec.targets, spec.waves) if spec.waves else {}
    return tuple(
        Request(
            id=name if last == 1 else f"{name}-{index:0{len(str(last))}}",
            group=group or name,
            kind=spec.kind,
            query=query,
            target=target,
            expect_active=spec.expect_active.get(query),
            actor=spec.actor,
            reason=spec.reason,
            consents=bind_consents(spec.consents, _run(store, spec, query)),
            created_at=at,
            expires_at=at + spec.within,
            parameters={**spec.parameters, **({WAVE: waves[query]} if query in waves else {})},
        )
        for index, (query, target) in enumerate(spec.targets.items(), start=1)
    )


def _run(store: ControllerStore, spec: RequestSpec, query: str) -> Process | None:
    return run_of(store, query) if spec.runs is None else spec.runs.get(query)


def standing_of(store: ControllerStore, requests: Sequence[Request]) -> tuple[Request, ...]:
    """The requests as they are now; one read for all that were made together."""
    found = {each.id: each for group in {request.group for request in requests} for each in store.requests_of(group)}
    return tuple(found.get(request.id, request) for request in requests)
