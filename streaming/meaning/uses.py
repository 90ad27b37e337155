"""The uses of a query's cluster-bound columns, from its plan: which column, by which operator.

What the plan does not show is never taken as harmless: a column may reach a function, a typed operator, an operator
that is not known here, or the sink. Each is a use, though no logic shows (``ColumnUse.is_logic``).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from state.model.column_uses import Column, ColumnUse, ColumnUses
from streaming.meaning.flows import NOTHING, Flow, Origin, Output, flow_of, output_of, scope_of, together
from streaming.meaning.plan_tree import Node

Outputs = list[Output]

SELECT = "select"
"""The operator of a value that an expression computes and that reaches the sink."""
WATERMARK = "withWatermark"
_KAFKA = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
_OF_KAFKA = {column.value: column for column in Column}
_DECIDES = {
    "Filter": ("filter", "condition"), "Join": ("join", "condition"), "Sort": ("orderBy", "order"),
    "Deduplicate": ("dropDuplicates", "keys"), "EventTimeWatermark": (WATERMARK, "eventTime"),
    "DeduplicateWithinWatermark": ("dropDuplicatesWithinWatermark", "keys"),
}  # fmt: skip
"""Operators whose result depends on what one of their fields says, and what Spark's API calls them."""
_HALVES = ("LeftSemi", "LeftAnti", "ExistenceJoin")
_MAKES = {"Project": "projectList", "SerializeFromObject": "serializer"}
_SEEN_THROUGH = frozenset(
    {
        *("SubqueryAlias", "View", "LocalLimit", "GlobalLimit", "Limit", "Offset", "Tail", "Repartition", "WithCTE"),
        *("RepartitionByExpression", "RebalancePartitions", "CollectMetrics", "ResolvedHint", "ReturnAnswer"),
        *("UpdateEventTimeWatermarkColumn", "DataFrameDropColumns", "WriteToMicroBatchDataSource", "SampleBy"),
    }
)
"""Operators that hand on the columns of their only (or last) child and decide nothing by them."""
_FUNCTIONS = {
    "MapInPandas": "mapInPandas", "PythonMapInArrow": "mapInArrow", "MapInArrow": "mapInArrow",
    "FlatMapGroupsInPandas": "applyInPandas", "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState", "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "TransformWithState": "transformWithState", "TransformWithStateInPySpark": "transformWithState",
    "TransformWithStateInPandas": "transformWithState", "MapElements": "map", "MapPartitions": "mapPartitions",
    "TypedFilter": "filter by a function", "MapGroups": "flatMapGroups", "AppendColumns": "groupByKey",
    "ScriptTransformation": "transform by a script",
}  # fmt: skip
_GROUPS = ("groupingAttributes", "groupingExprs", "groupingAttrs", "leftGroup", "rightGroup")
_HANDS_OUT = ("output", "outputAttrs", "outputObjAttr", "outputAttributes", "resultAttrs", "generatorOutput")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sink:
    """Where a query writes, as far as its writer shows."""

    name: str
    """``foreachBatch``, or the format."""
    names_topic: bool = False
    """Whether an option names the topic of a Kafka sink, so that no column does."""


def column_uses(plan: Node, sources: Sequence[str], delays_ms: Sequence[int], sink: Sink) -> ColumnUses:
    """Every use, each once, from the sources to the sink.

    ``sources`` names the streaming leaves of the plan, ``delays_ms`` the delays of its watermarks, both in the order of
    the plan. Raises ``ValueError`` where there are more or fewer of either.
    """
    nodes = list(_every(plan))
    reads = [node for node in nodes if _is_stream(node)]
    marks = [node for node in nodes if node.kind == "EventTimeWatermark"]
    if (len(reads), len(marks)) != (len(sources), len(delays_ms)):
        raise ValueError(
            f"the plan has {len(reads)} streams and {len(marks)} watermarks; "
            f"{len(sources)} sources and {len(delays_ms)} delays were given"
        )
    walk = _Walk(
        {id(node): name for node, name in zip(reads, sources, strict=True)},
        {id(node): delay for node, delay in zip(marks, delays_ms, strict=True)},
    )
    walk.sink(walk.outputs(plan), sink)
    return tuple(dict.fromkeys(walk.uses))


def _every(plan: Node) -> Iterator[Node]:
    yield plan
    for child in plan.children:
        yield from _every(child)


def _is_stream(node: Node) -> bool:
    return node.kind.startswith("Streaming") and not node.children


@dataclass(slots=True)
class _Walk:
    names: dict[int, str]
    """By identity of a leaf."""
    delays: dict[int, int]
    """By identity of a watermark."""
    uses: list[ColumnUse] = field(default_factory=list)
    shared: dict[int, Outputs] = field(default_factory=dict)
    """By id of a common table expression."""

    def outputs(self, node: Node) -> Outputs:
        """The columns that an operator hands on; its uses are noted on the way, those of its children first."""
        below = [self.outputs(child) for child in node.children]
        every = [output for outputs in below for output in outputs]
        decides = _DECIDES.get(node.kind)
        if decides is not None:
            operator, name = decides
            scope = scope_of(every)
            flows = (flow_of(each, scope) for each in node.expressions(name))
            self._note(operator, flows, delay_ms=self.delays.get(id(node)))
            half = node.kind == "Join" and any(each in str(node.fields.get("joinType")) for each in _HALVES)
            return below[0] if half else every
        match node.kind:
            case "Distinct":
                self._note("distinct", (each.flow for each in every))
                return every
            case "Aggregate":
                return self._aggregate(node, every)
            case "Union":
                return _positions(below)
            case "CTERelationDef":
                self.shared[node.number("id") or 0] = every
                return every
            case "CTERelationRef":
                known = self.shared.get(node.number("cteId") or 0, [])
                return [_named(each, was.flow) for each, was in zip(node.expressions("output"), known, strict=False)]
        made = _made(node, every)
        return self._other(node, below) if made is None else made

    def _aggregate(self, node: Node, below: Outputs) -> Outputs:
        scope = scope_of(below)
        self._note("groupBy", (flow_of(each, scope) for each in node.expressions("groupingExpressions")))
        for expression in node.expressions("aggregateExpressions"):
            for found in _every(expression):
                if found.kind == "AggregateExpression" or found.kind.startswith("PythonUDA"):
                    function = found.children[0].kind if found.kind == "AggregateExpression" else "a Python aggregate"
                    self._note(_word(function), [flow_of(found, scope)])
        return [output_of(each, scope) for each in node.expressions("aggregateExpressions")]

    def _other(self, node: Node, below: Sequence[Outputs]) -> Outputs:
        if not node.children:
            return self._leaf(node)
        if node.kind in _SEEN_THROUGH:
            return below[-1]
        every = [output for outputs in below for output in outputs]
        scope = scope_of(every)
        groups = [flow_of(each, scope) for name in _GROUPS for each in node.expressions(name)]
        groups += [each.flow for each in every[: node.number("groupingAttributesLen") or 0]]
        self._note("groupBy", groups)
        whole = together(each.flow for each in every)
        self._note(_FUNCTIONS.get(node.kind, _camel(node.kind)), [whole], is_logic=False)
        out = [_named(each, Flow(whole.origins)) for name in _HANDS_OUT for each in node.expressions(name)]
        return out or every

    def _leaf(self, node: Node) -> Outputs:
        named = node.expressions("output")
        names = {str(each.fields.get("name")) for each in named}
        if not (_is_stream(node) and names >= _KAFKA):
            return [_named(each, NOTHING) for each in named]
        source = self.names[id(node)]
        origins = {name: Flow(frozenset({Origin(source, column)})) for name, column in _OF_KAFKA.items()}
        return [_named(each, origins.get(str(each.fields.get("name")), NOTHING)) for each in named]

    def sink(self, outputs: Outputs, sink: Sink) -> None:
        """Note what reaches the sink."""
        if sink.name == "kafka":
            written = {each.name: each.flow for each in outputs}
            routes = ["partition"] if sink.names_topic else ["topic", "partition"]
            for name in routes:
                self._note(f"the {name} column of the Kafka sink", [written.get(name, NOTHING)])
            outputs = [each for each in outputs if each.name in {"key", "value", "headers"}]
        flow = together(each.flow for each in outputs)
        self._note(SELECT, [Flow(flow.computed)])
        self._note(sink.name, [Flow(flow.origins - flow.computed)], is_logic=False)

    def _note(
        self, operator: str, flows: Iterable[Flow], *, is_logic: bool = True, delay_ms: int | None = None
    ) -> None:
        origins = {origin for flow in flows for origin in flow.origins}
        self.uses += [
            ColumnUse(source, column, operator, is_logic, delay_ms)
            for source, column in sorted(origins, key=lambda each: (each.source, list(Column).index(each.column)))
        ]


def _made(node: Node, below: Outputs) -> Outputs | None:
    """The columns of an operator that makes some and decides nothing; None for any other operator."""
    scope = scope_of(below)
    if node.kind in _MAKES:
        return [output_of(each, scope) for each in node.expressions(_MAKES[node.kind])]
    if node.kind == "Generate":
        flow = together(flow_of(each, scope) for each in node.expressions("generator"))
        return below + [_named(each, flow) for each in node.expressions("generatorOutput")]
    if node.kind == "DeserializeToObject":
        flow = together(flow_of(each, scope) for each in node.expressions("deserializer"))
        return [_named(each, Flow(flow.origins)) for each in node.expressions("outputObjAttr")]
    return None


def _positions(below: Sequence[Outputs]) -> Outputs:
    """The columns of a union: the ids of its first child, the flows of all."""
    if len({len(outputs) for outputs in below}) != 1:
        whole = together(each.flow for outputs in below for each in outputs)
        return [each._replace(flow=Flow(whole.origins, whole.computed)) for each in below[0]]
    return [each[0]._replace(flow=together(one.flow for one in each)) for each in zip(*below, strict=True)]


def _named(attribute: Node, flow: Flow) -> Output:
    return Output(attribute.number("exprId") or -1, str(attribute.fields.get("name", "")), flow)


def _word(kind: str) -> str:
    """``MaxBy`` as SQL writes it: ``max_by``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


def _camel(kind: str) -> str:
    return kind[:1].lower() + kind[1:]
