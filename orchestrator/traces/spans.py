"""From the journal of a closed operation to its spans. Pure.

The ids are made from those of the operation and its steps: written again, they are the same.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from state.model.entities import Operation, Step

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Attribute = str | int | float | bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A stretch of time with a name."""

    name: str
    trace_id: int
    """128 bits, the same for an operation and its steps."""
    span_id: int
    """64 bits."""
    parent_id: int | None
    """None: of the operation itself."""
    start_ns: int
    end_ns: int
    """Since 1970, by the store's clock; never before ``start_ns``."""
    error: str
    """Why it did not go well; empty where it did."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


def spans_of(operation: Operation, steps: Sequence[Step]) -> Sequence[Span]:
    """The operation first, then its steps in their order; what has not ended is left out."""
    if operation.ended_at is None:
        return ()
    trace, root = _number(operation.id, 16), _number(f"{operation.id}:", 8)
    whole = Span(
        name=f"{operation.kind} {operation.query}", trace_id=trace, span_id=root, parent_id=None,
        start_ns=_ns(operation.started_at), end_ns=_ns(max(operation.ended_at, operation.started_at)),
        error="" if operation.outcome == "done" else operation.sentence, attributes=_attributes(operation),
    )  # fmt: skip
    parts = [
        Span(
            name=step.name, trace_id=trace, span_id=_number(f"{operation.id}:{step.sequence}", 8), parent_id=root,
            start_ns=_ns(step.started_at), end_ns=_ns(max(step.ended_at, step.started_at)),
            error="" if step.outcome == "done" else step.outcome or "",
            attributes={"tideover.sequence": step.sequence, "tideover.outcome": step.outcome or ""},
        )
        for step in steps
        if step.ended_at is not None
    ]  # fmt: skip
    return (whole, *parts)


def _attributes(operation: Operation) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {
        "tideover.operation": operation.id,
        "tideover.group": operation.group,
        "tideover.kind": operation.kind.value,
        "tideover.query": operation.query,
        "tideover.from": operation.source,
        "tideover.to": operation.target,
        "tideover.epoch": operation.epoch,
        "tideover.outcome": operation.outcome or "",
        "tideover.actor": operation.actor,
    }
    measured = {f"tideover.{name}": value for name, value in operation.measured.as_json().items()}
    return attributes | {name: value for name, value in measured.items() if isinstance(value, bool | int | float | str)}


def _number(text: str, length: int) -> int:
    """Of this many bytes, and never 0, which is no id."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:length]) or 1


def _ns(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
