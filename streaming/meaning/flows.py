"""From which columns of which sources a value comes: through renames, casts, structs and expressions.

A flow follows ids of attributes, never names. A struct remembers the flow of each of its fields, so that taking one
field out of ``struct(*)`` does not bring the others along.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from state.model.column_uses import Column
from streaming.meaning.plan_tree import Node


class Origin(NamedTuple):
    """A column of a source."""

    source: str
    column: Column


@dataclass(frozen=True, slots=True)
class Flow:
    """What a value was made from."""

    origins: frozenset[Origin] = frozenset()
    computed: frozenset[Origin] = frozenset()
    """Those of them that an expression worked on; the others were handed on as they are."""
    fields: tuple["Flow", ...] | None = None
    """Of a struct whose fields are known, in order."""

    @property
    def after_work(self) -> "Flow":
        """The flow of a value that an expression made from this one."""
        return Flow(self.origins, self.origins)


NOTHING = Flow()
Scope = Mapping[int, Flow]
"""By id of an attribute."""


def together(flows: Iterable[Flow]) -> Flow:
    """The flow of a value that may hold any of these; a struct stays one where all have as many fields."""
    found = tuple(flows)
    if len(found) == 1:
        return found[0]
    origins = frozenset(origin for flow in found for origin in flow.origins)
    computed = frozenset(origin for flow in found for origin in flow.computed)
    parts = [flow.fields for flow in found if flow.fields is not None]
    alike = bool(found) and len(parts) == len(found) and len({len(each) for each in parts}) == 1
    fields = tuple(together(each) for each in zip(*parts, strict=True)) if alike else None
    return Flow(origins, computed, fields)


_HANDED_ON = frozenset(
    {
        *("Alias", "Cast", "AnsiCast", "UpCast", "TryCast", "KnownNotNull", "AssertNotNull", "KnownNotContainsNull"),
        *("CreateArray", "CreateMap", "GetArrayItem", "GetMapValue", "ElementAt", "Explode", "PosExplode", "Inline"),
        *("StructsToJson", "StructsToCsv", "TempResolvedColumn", "BoundReference"),
    }
)
"""Expressions that pack, unpack or write a value and do not change it."""


def flow_of(expression: Node, scope: Scope) -> Flow:
    """What an expression's value is made from."""
    if expression.kind in {"AttributeReference", "OuterReference"} and not expression.children:
        return scope.get(expression.number("exprId") or -1, NOTHING)
    inner = [flow_of(child, scope) for child in expression.children]
    if _only_counts(expression, inner):
        return NOTHING
    if expression.kind == "CreateNamedStruct":
        values = tuple(inner[1::2])
        return Flow(together(values).origins, together(values).computed, values)
    if expression.kind == "GetStructField" and inner:
        fields, ordinal = inner[0].fields, expression.number("ordinal")
        known = fields is not None and ordinal is not None and 0 <= ordinal < len(fields)
        return fields[ordinal] if known else Flow(inner[0].origins, inner[0].computed)  # type: ignore[index]
    if expression.kind in {"Alias", "Cast"} and len(inner) == 1:
        return inner[0]
    flow = together(inner)
    return Flow(flow.origins, flow.computed) if expression.kind in _HANDED_ON else flow.after_work


def _only_counts(expression: Node, inner: Sequence[Flow]) -> bool:
    """Whether only it matters that there is a value: a column of Kafka's is never null, so that its value does not."""
    if expression.kind == "AggregateExpression":
        return expression.children[0].kind == "Count" and not expression.fields.get("isDistinct")
    return expression.kind in {"IsNull", "IsNotNull"} and not any(flow.computed for flow in inner)


class Output(NamedTuple):
    """One column that an operator hands on."""

    id: int
    name: str
    flow: Flow


def output_of(named: Node, scope: Scope) -> Output:
    """The column that a named expression of an operator makes."""
    return Output(named.number("exprId") or -1, str(named.fields.get("name", "")), flow_of(named, scope))


def scope_of(outputs: Iterable[Output]) -> Scope:
    """What expressions above an operator can name."""
    return {each.id: each.flow for each in outputs}
