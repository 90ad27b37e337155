"""What a plan says of cluster-bound columns, on trees as Spark's JSON writes them; the real plans are in tests/real."""

import json
from typing import Any

import pytest

from state.model.column_uses import Column, ColumnUses
from streaming.meaning.plan_tree import read_plan
from streaming.meaning.uses import Sink, column_uses

Tree = list[dict[str, Any]]
KAFKA = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
AT = {name: number for number, name in enumerate(KAFKA)}
"""Ids of a source's columns."""


def op(kind: str, *children: Tree, **fields: Any) -> Tree:
    """An operator or an expression before its children, as ``toJSON`` lists them."""
    node = {"class": f"org.apache.spark.{kind}", "num-children": len(children), **fields}
    return [node, *(each for child in children for each in child)]


def ref(number: int, name: str = "") -> Tree:
    return op("AttributeReference", name=name or str(number), exprId={"id": number})


def named(number: int, child: Tree, name: str = "") -> Tree:
    return op("Alias", child, name=name or f"c{number}", exprId={"id": number})


def kafka(first: int = 0) -> Tree:
    """A source; its columns have ids from ``first`` on."""
    return op("StreamingRelationV2", output=[ref(first + number, name) for name, number in AT.items()])


def project(child: Tree, *columns: Tree) -> Tree:
    return op("Project", child, projectList=list(columns))


def used(
    plan: Tree, *, sources: tuple[str, ...] = ("s",), delays: tuple[int, ...] = (), sink: str = "out"
) -> ColumnUses:
    return column_uses(read_plan(json.dumps(plan)), sources, delays, Sink(name=sink))


def seen(plan: Tree, **more: Any) -> set[tuple[str, str, bool]]:
    return {(use.column.value, use.operator, use.is_logic) for use in used(plan, **more)}


VALUE, OFFSET, PARTITION, TIME = (ref(AT[name], name) for name in ("value", "offset", "partition", "timestamp"))
STRUCT = op(
    "CreateNamedStruct", op("Literal", value="value"), VALUE, op("Literal", value="offset"), OFFSET
)  # fmt: skip


def test_a_column_is_followed_by_its_id_through_new_names() -> None:
    renamed = project(kafka(), VALUE, named(20, OFFSET, "value"))
    again = project(op("Deduplicate", renamed, keys=[ref(20, "value")]), VALUE)
    assert seen(again) == {("offset", "dropDuplicates", True)}


def test_a_name_alone_is_no_use() -> None:
    other = project(kafka(), named(20, op("Length", VALUE), "offset"))
    assert used(op("Filter", other, condition=op("GreaterThan", ref(20, "offset"), op("Literal")))) == ()


def test_a_field_of_a_struct_is_followed_alone() -> None:
    packed = project(kafka(), named(20, STRUCT))
    assert seen(project(packed, named(21, op("GetStructField", ref(20), ordinal=0)))) == set()
    taken = project(packed, named(21, op("GetStructField", ref(20), ordinal=1)))
    assert seen(taken) == {("offset", "out", False)}
    assert seen(packed) == {("offset", "out", False)}


def test_a_struct_of_unknown_fields_is_followed_as_a_whole() -> None:
    packed = project(kafka(), named(20, op("ArrayTransform", STRUCT)))
    taken = project(packed, named(21, op("GetStructField", ref(20), ordinal=0)))
    assert seen(taken) == {("offset", "select", True)}


def test_a_computed_value_is_logic_and_a_handed_on_one_is_unknown() -> None:
    plan = project(kafka(), named(20, op("Concat", op("Cast", PARTITION), VALUE)), named(21, op("Cast", OFFSET)))
    assert seen(plan) == {("partition", "select", True), ("offset", "out", False)}


@pytest.mark.parametrize(
    ("plan", "operator"),
    [
        (op("Filter", kafka(), condition=op("EqualTo", OFFSET, op("Literal"))), "filter"),
        (op("DeduplicateWithinWatermark", kafka(), keys=[OFFSET]), "dropDuplicatesWithinWatermark"),
        (op("Sort", kafka(), order=[op("SortOrder", OFFSET)]), "orderBy"),
        (op("Aggregate", kafka(), groupingExpressions=[OFFSET], aggregateExpressions=[]), "groupBy"),
    ],
)
def test_an_operator_that_decides_by_a_column_is_logic(plan: Tree, operator: str) -> None:
    assert seen(project(plan, VALUE)) == {("offset", operator, True)}


def test_a_watermark_keeps_its_delay() -> None:
    marked = project(op("EventTimeWatermark", kafka(), eventTime=TIME), VALUE)
    (use,) = used(marked, delays=(5_000,))
    assert (use.column, use.operator, use.delay_ms) == (Column.TIMESTAMP, "withWatermark", 5_000)


def test_an_aggregate_is_named_and_a_count_is_none() -> None:
    newest = named(20, op("AggregateExpression", op("MaxBy", VALUE, OFFSET), isDistinct=False))
    many = named(21, op("AggregateExpression", op("Count", PARTITION), isDistinct=False))
    once = named(22, op("AggregateExpression", op("Count", TIME), isDistinct=True))
    plan = op("Aggregate", kafka(), groupingExpressions=[], aggregateExpressions=[newest, many, once])
    assert seen(plan) == {
        ("offset", "max_by", True), ("offset", "select", True), ("timestamp", "count", True),
        ("timestamp", "select", True),
    }  # fmt: skip


def test_a_join_keeps_its_sources_apart_and_a_semi_join_hands_on_one() -> None:
    on = op("EqualTo", OFFSET, ref(10 + AT["value"]))
    half = op("Join", kafka(), kafka(10), condition=on, joinType={"object": "org.apache.LeftSemi$"})
    found = used(half, sources=("left", "right"))
    assert [(use.source, use.column) for use in found if use.operator == "join"] == [("left", Column.OFFSET)]
    assert {use.source for use in found if use.operator == "out"} == {"left"}


def test_a_union_joins_columns_of_the_same_position() -> None:
    plan = op("Union", project(kafka(), VALUE), project(kafka(10), ref(10 + AT["offset"])))
    assert seen(op("Filter", plan, condition=op("IsTrue", VALUE)), sources=("a", "b")) == {
        ("offset", "filter", True),
        ("offset", "out", False),
    }


def test_an_operator_that_is_not_known_is_never_harmless() -> None:
    strange = op("TimeTravel", kafka())
    assert ("offset", "timeTravel", False) in seen(project(strange, VALUE))
    function = op("MapInPandas", project(kafka(), OFFSET), output=[ref(30)])
    assert seen(op("Filter", function, condition=op("IsTrue", ref(30)))) == {
        ("offset", "mapInPandas", False),
        ("offset", "filter", True),
        ("offset", "out", False),
    }


def test_a_group_of_a_state_function_is_logic_and_its_rows_are_unknown() -> None:
    state = op(
        "FlatMapGroupsInPandasWithState", project(kafka(), OFFSET, TIME), groupingAttributes=[OFFSET], outputAttrs=[]
    )
    assert {("offset", "groupBy", True), ("timestamp", "applyInPandasWithState", False)} <= seen(state)
    counted = op("TransformWithStateInPySpark", project(kafka(), OFFSET, TIME), groupingAttributesLen=1)
    assert ("offset", "groupBy", True) in seen(counted)
    assert ("timestamp", "groupBy", True) not in seen(counted)


def test_a_typed_function_gets_what_its_object_was_made_from() -> None:
    made = op("DeserializeToObject", kafka(), deserializer=op("Invoke", OFFSET), outputObjAttr=ref(40))
    mapped = op("MapElements", made, outputObjAttr=ref(41))
    assert ("offset", "map", False) in seen(op("SerializeFromObject", mapped, serializer=[named(42, ref(41))]))


def test_a_common_table_expression_hands_its_columns_on_under_other_ids() -> None:
    shared = op("CTERelationDef", project(kafka(), VALUE, OFFSET), id=7)
    body = op("Filter", op("CTERelationRef", cteId=7, output=[ref(50), ref(51)]), condition=op("IsTrue", ref(51)))
    assert ("offset", "filter", True) in seen(op("WithCTE", shared, project(body, ref(50))))


def test_a_test_for_null_is_no_use_of_a_value() -> None:
    assert seen(project(op("Filter", kafka(), condition=op("IsNotNull", OFFSET)), VALUE)) == set()


def test_a_kafka_sink_looks_at_no_other_column_than_its_own() -> None:
    plan = project(kafka(), VALUE, OFFSET, TIME)
    assert used(plan, sink="kafka") == ()
    routed = project(kafka(), VALUE, named(20, ref(AT["topic"]), "topic"))
    assert seen(routed, sink="kafka") == {("topic", "the topic column of the Kafka sink", True)}


def test_a_source_of_another_kind_has_no_such_column() -> None:
    assert used(op("StreamingRelation", output=[ref(1, "offset"), ref(2, "timestamp")])) == ()


@pytest.mark.parametrize(("sources", "delays"), [((), ()), (("a", "b"), ()), (("a",), (1,))])
def test_sources_and_delays_must_be_those_of_the_plan(sources: tuple[str, ...], delays: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="the plan has 1 streams and 0 watermarks"):
        used(kafka(), sources=sources, delays=delays)


@pytest.mark.parametrize("text", ["[]", "{}", '[{"class": "a.B"}]', '[{"class": "a.B", "num-children": 1}]', "no"])
def test_other_text_is_no_plan(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_plan(text)
