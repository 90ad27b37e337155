"""The table of paths: who may use one, what may stand behind its question mark, and what it answers.

The router and the page of OpenAPI are both made from it, so neither can have a path that the other lacks.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from orchestrator.http.auth import Principal, Role
from orchestrator.http.reads import (
    HistoryParameters,
    LabelParameters,
    OperationsParameters,
    Reads,
    SamplesParameters,
    TimelineParameters,
)
from orchestrator.http.requests.bodies import (
    AckBody,
    CancelBody,
    DrillBody,
    MoveBody,
    MovesBody,
    PauseBody,
    PlanBody,
    PlansBody,
    ResumeBody,
    RewindBody,
)
from orchestrator.http.requests.group_moves import GroupMoves
from orchestrator.http.requests.writes import Writes
from orchestrator.http.waits import GROUP_SECONDS
from state.model.entities import OperationKind

Parsed = TypeVar("Parsed", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request, checked: names from the path, and the parameters behind it."""

    who: Principal
    names: Mapping[str, str] = field(default_factory=dict)
    parameters: BaseModel | None = None
    body: BaseModel | None = None
    key: str | None = None
    """Its ``Idempotency-Key``."""
    until: float = math.inf
    """When its answer is given up, on the monotonic clock; seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """One path and what it does; ``answer`` runs on a thread and may raise ``TideoverError``."""

    path: str
    summary: str
    answer: Callable[[Call], object]
    parameters: type[BaseModel] | None = None
    shape: str = ""
    """Which shape of docs/programs.md it answers with."""
    role: Role = Role.VIEWER
    body: type[BaseModel] | None = None
    """What has to be sent; such a path takes POST, and any other GET."""
    takes_key: bool = False
    """Whether an ``Idempotency-Key`` makes it the same request when it is sent again."""
    code: int = 200
    seconds: float | None = None
    """How long the answer may take; None: as usual for its method."""

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"


def endpoints_of(reads: Reads, writes: Writes) -> tuple[Endpoint, ...]:
    """All paths below /api but for the page of OpenAPI itself."""
    return (*_readable(reads), *_askable(writes))


def _readable(reads: Reads) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            path="/api/status", summary="Everything at one moment", shape="watch -o json",
            parameters=LabelParameters, answer=lambda call: reads.status(_given(call, LabelParameters)),
        ),
        Endpoint(
            path="/api/clusters", summary="The verdict on each cluster", shape="clusters of watch -o json",
            answer=lambda call: reads.clusters(),
        ),
        Endpoint(
            path="/api/queries", summary="Every query", shape="list", parameters=LabelParameters,
            answer=lambda call: reads.queries(_given(call, LabelParameters)),
        ),
        Endpoint(
            path="/api/queries/{query}", summary="One query with its positions and copies", shape="show QUERY",
            answer=lambda call: reads.query(call.names["query"]),
        ),
        Endpoint(
            path="/api/queries/{query}/timeline", summary="How far a query had read at which time", shape="timeline",
            parameters=TimelineParameters,
            answer=lambda call: reads.timeline(call.names["query"], _given(call, TimelineParameters)),
        ),
        Endpoint(
            path="/api/queries/{query}/samples", summary="What checks measured of a query's standby", shape="samples",
            parameters=SamplesParameters,
            answer=lambda call: reads.samples(call.names["query"], _given(call, SamplesParameters)),
        ),
        Endpoint(
            path="/api/operations", summary="Operations, newest first", shape="operations of show QUERY, with query",
            parameters=OperationsParameters, answer=lambda call: reads.operations(_given(call, OperationsParameters)),
        ),
        Endpoint(
            path="/api/operations/{operation}", summary="One operation with its steps and plan", shape="show-op ID",
            answer=lambda call: reads.operation(call.names["operation"]),
        ),
        Endpoint(
            path="/api/history", summary="What happened, oldest first", shape="events of history, and more",
            parameters=HistoryParameters, answer=lambda call: reads.history(_given(call, HistoryParameters)),
        ),
        Endpoint(
            path="/api/config", summary="The configuration, secrets masked", shape="config show",
            answer=lambda call: reads.config(),
        ),
    )  # fmt: skip


def _askable(writes: Writes) -> tuple[Endpoint, ...]:
    groups = GroupMoves(writes)
    return (
        Endpoint(
            path="/api/plan", summary="What a move would do, and the hash of its plan", shape="plan, with hash",
            role=Role.OPERATOR, body=PlanBody, answer=lambda call: writes.plan(_sent(call, PlanBody)),
        ),
        Endpoint(
            path="/api/plans", summary="What moves of several queries would do, in the order in which they begin",
            shape="plan --all, each with hash", role=Role.OPERATOR, body=PlansBody, seconds=GROUP_SECONDS,
            answer=lambda call: groups.plan(_sent(call, PlansBody)),
        ),
        Endpoint(
            path="/api/moves", summary="Request moves of several queries as one group", shape=_GROUP,
            role=Role.OPERATOR, body=MovesBody, takes_key=True, code=202, seconds=GROUP_SECONDS,
            answer=lambda call: groups.move(_sent(call, MovesBody), call.who, call.key, call.until),
        ),
        *(_move(writes, kind) for kind in (OperationKind.FAILOVER, OperationKind.SWITCHOVER, OperationKind.FAILBACK)),
        Endpoint(
            path="/api/rewind", summary="Request a rewind whose plan was seen", shape=_REQUEST, role=Role.OPERATOR,
            body=RewindBody, takes_key=True, code=202,
            answer=lambda call: writes.rewind(_sent(call, RewindBody), call.who, call.key),
        ),
        Endpoint(
            path="/api/drill", summary="Rehearse a failover", shape=_REQUEST, role=Role.OPERATOR, body=DrillBody,
            takes_key=True, code=202, answer=lambda call: writes.drill(_sent(call, DrillBody), call.who, call.key),
        ),
        Endpoint(
            path="/api/cancel", summary="Take back what is not committed", shape=_REQUEST, role=Role.OPERATOR,
            body=CancelBody, takes_key=True, code=202,
            answer=lambda call: writes.cancel(_sent(call, CancelBody), call.who, call.key),
        ),
        Endpoint(
            path="/api/pause", summary="Pause automatic failover", shape="pause", role=Role.OPERATOR, body=PauseBody,
            answer=lambda call: writes.pause(_sent(call, PauseBody), call.who),
        ),
        Endpoint(
            path="/api/resume", summary="End a pause", shape="resume", role=Role.OPERATOR, body=ResumeBody,
            answer=lambda call: writes.resume(_sent(call, ResumeBody), call.who),
        ),
        Endpoint(
            path="/api/ack", summary="End a cool-down", shape="ack", role=Role.OPERATOR, body=AckBody,
            answer=lambda call: writes.acknowledge(_sent(call, AckBody), call.who),
        ),
        Endpoint(
            path="/api/requests/{request}", summary="What became of a request", shape=_REQUEST,
            answer=lambda call: writes.request(call.names["request"]),
        ),
    )  # fmt: skip


def _move(writes: Writes, kind: OperationKind) -> Endpoint:
    return Endpoint(
        path=f"/api/{kind}", summary=f"Request a {kind} whose plan was seen", shape=_REQUEST, role=Role.OPERATOR,
        body=MoveBody, takes_key=True, code=202,
        answer=lambda call: writes.move(kind, _sent(call, MoveBody), call.who, call.key),
    )  # fmt: skip


_REQUEST = "requests of show QUERY, with request, query, operation, refused"


_GROUP = "group, requests (as above), refused (query, text)"


def _given(call: Call, kind: type[Parsed]) -> Parsed:
    if not isinstance(call.parameters, kind):
        raise TypeError(f"this path takes {kind.__name__}")
    return call.parameters


def _sent(call: Call, kind: type[Parsed]) -> Parsed:
    if not isinstance(call.body, kind):
        raise TypeError(f"this path takes {kind.__name__}")
    return call.body
