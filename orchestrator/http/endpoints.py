"""The table of paths: who may use one, what may stand behind its question mark, and what it answers.

The router and the page of OpenAPI are both made from it, so neither can have a path that the other lacks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel

from orchestrator.http.auth import Principal, Role
from orchestrator.http.reads import HistoryAsked, OperationsAsked, Reads, TimelineAsked

Asked = TypeVar("Asked", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request, checked: names from the path, and the parameters behind it."""

    who: Principal
    names: Mapping[str, str] = field(default_factory=dict)
    parameters: BaseModel | None = None


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


def endpoints_of(reads: Reads) -> tuple[Endpoint, ...]:
    """All paths below /api but for the page of OpenAPI itself."""
    return (
        Endpoint(
            path="/api/status", summary="Everything at one moment", shape="watch -o json",
            answer=lambda call: reads.status(),
        ),
        Endpoint(
            path="/api/clusters", summary="The verdict on each cluster", shape="clusters of watch -o json",
            answer=lambda call: reads.clusters(),
        ),
        Endpoint(path="/api/queries", summary="Every query", shape="list", answer=lambda call: reads.queries()),
        Endpoint(
            path="/api/queries/{query}", summary="One query with its positions and copies", shape="show QUERY",
            answer=lambda call: reads.query(call.names["query"]),
        ),
        Endpoint(
            path="/api/queries/{query}/timeline", summary="How far a query had read at which time", shape="timeline",
            parameters=TimelineAsked,
            answer=lambda call: reads.timeline(call.names["query"], _given(call, TimelineAsked)),
        ),
        Endpoint(
            path="/api/operations", summary="Operations, newest first", shape="operations of show QUERY, with query",
            parameters=OperationsAsked, answer=lambda call: reads.operations(_given(call, OperationsAsked)),
        ),
        Endpoint(
            path="/api/operations/{operation}", summary="One operation with its steps and plan", shape="show-op ID",
            answer=lambda call: reads.operation(call.names["operation"]),
        ),
        Endpoint(
            path="/api/history", summary="What happened, oldest first", shape="events of history, and more",
            parameters=HistoryAsked, answer=lambda call: reads.history(_given(call, HistoryAsked)),
        ),
        Endpoint(
            path="/api/config", summary="The configuration, secrets masked", shape="config show",
            answer=lambda call: reads.config(),
        ),
    )  # fmt: skip


def _given(call: Call, kind: type[Asked]) -> Asked:
    if not isinstance(call.parameters, kind):
        raise TypeError(f"this path takes {kind.__name__}")
    return call.parameters
