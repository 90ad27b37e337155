"""What a move answers: its operations as data, what was turned down as errors, and the worst of the exit codes."""

from collections.abc import Sequence

from orchestrator.cli import render, shapes
from orchestrator.decide.times import iso
from orchestrator.errors import ExitCode, OutcomeUnknown, Refused
from orchestrator.work import outcome_of
from state.model import Operation, Request
from state.ports import Store

_WORST_LAST = (ExitCode.DONE, ExitCode.REFUSED, ExitCode.UNKNOWN, ExitCode.FAILED)
_COLUMNS = ("id", "query", "from", "to", "phase", "outcome", "sentence")

_JOIN = "the same command again joins what became of it"
_SEE_GATES = "tideover plan failover shows every gate"

Answered = tuple[Request, Operation | None]


def nothing_done(output: str, *, many: bool) -> int:
    """Every query is there already: no operation, and no error."""
    if output in {"json", "yaml"}:
        render.document([] if many else None, output)
    return ExitCode.DONE


def answer(store: Store, requests: Sequence[Request], output: str, *, many: bool) -> int:
    """Print what became of the requests and return the exit code.

    ``many`` prints an array, in which a request that became no operation is ``{"query", "error": {...}}``. Raises
    ``Refused`` or ``OutcomeUnknown`` when none became one.
    """
    answered: list[Answered] = [(request, outcome_of(store, request)) for request in requests]
    if not any(operation for _, operation in answered):
        return _answer_nothing(answered, output, many=many)
    values = [_value(store, request, operation) for request, operation in answered]
    if output in {"json", "yaml"}:
        render.document(values if many else values[0], output)
    else:
        render.show([value for value in values if "id" in value], output, columns=_COLUMNS)
        for request, operation in answered:
            if operation is None:
                render.talk(_sentence(request))
    return max((_code(*each) for each in answered), key=_WORST_LAST.index)


def _answer_nothing(answered: Sequence[Answered], output: str, *, many: bool) -> int:
    turned_down = [request for request, operation in answered if _code(request, operation) is not ExitCode.DONE]
    if not turned_down:
        return nothing_done(output, many=many)
    sentences = "\n".join(_sentence(request) for request in turned_down)
    if any(request.refused is None for request in turned_down):
        open_yet = [request for request in turned_down if request.refused is None]
        raise OutcomeUnknown(sentences, hint=_JOIN, asked=open_yet)
    raise Refused(sentences, hint=_SEE_GATES)


def _sentence(request: Request) -> str:
    if request.refused is not None:
        return f"{request.query}: {request.refused}"
    return f"{request.query}: request {request.id} is not taken yet; nobody takes it after {iso(request.expires_at)}"


def _value(store: Store, request: Request, operation: Operation | None) -> dict[str, object]:
    if operation is not None:
        return shapes.operation_json(operation, store.steps(operation.id))
    kind, hint = ("outcome-unknown", _JOIN) if request.refused is None else ("refused", _SEE_GATES)
    return {**shapes.asked_row(request), **render.error_json(kind, _sentence(request), hint)}


def _code(request: Request, operation: Operation | None) -> ExitCode:
    if request.refused is not None:
        there = request.refused.startswith("not-already-there")
        return ExitCode.DONE if there else ExitCode.REFUSED
    if operation is None or operation.outcome is None:
        return ExitCode.UNKNOWN
    return {"done": ExitCode.DONE, "refused": ExitCode.REFUSED}.get(operation.outcome, ExitCode.FAILED)
