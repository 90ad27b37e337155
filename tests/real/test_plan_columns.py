"""Which cluster-bound columns a query uses, read from the plans of real Spark; no broker gets a request."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.model.column_uses import Column
from streaming.meaning.uses import Sink
from streaming.spark.query.plan_columns import uses_in_query, uses_in_writer
from tests.jars import local_spark

pytestmark = [pytest.mark.real, pytest.mark.matrix]

Reads = Callable[..., DataFrame]
Use = tuple[str, str, str]

ALL = {Column.OFFSET, Column.PARTITION, Column.TOPIC, Column.TIMESTAMP, Column.TIMESTAMP_TYPE}


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with local_spark({"spark.sql.shuffle.partitions": "2"}) as session:
        yield session


@pytest.fixture
def read(session: SparkSession) -> Reads:
    def reader(source: str = "orders", **options: str) -> DataFrame:
        known = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": source, "tideover.source": source}
        return session.readStream.format("kafka").options(**known, **options).load()

    return reader


def nowhere(_frame: DataFrame, _batch: int) -> None:
    """A sink."""


def logic(session: SparkSession, writer: DataStreamWriter, *, names_topic: bool = False) -> set[Use]:
    uses = uses_in_writer(session, writer, names_topic=names_topic)
    return {(use.source, use.column.value, use.operator) for use in uses if use.is_logic}


def unknown(session: SparkSession, writer: DataStreamWriter) -> dict[str, set[Column]]:
    """By operator that the plan does not look into, the columns that reach it."""
    found: dict[str, set[Column]] = {}
    for use in uses_in_writer(session, writer, names_topic=False):
        if not use.is_logic:
            found.setdefault(use.operator, set()).add(use.column)
    return found


def test_key_and_value_are_no_use(session: SparkSession, read: Reads) -> None:
    frame = read().select(f.col("key").cast("string"), f.length("value").alias("offset")).where("offset > 5")
    assert uses_in_writer(session, frame.writeStream.foreachBatch(nowhere), names_topic=False) == ()


def test_a_renamed_column_is_found_as_a_key_of_deduplication(session: SparkSession, read: Reads) -> None:
    frame = read().withColumnRenamed("offset", "position").dropDuplicates(["partition", "position"]).select("value")
    assert logic(session, frame.writeStream.foreachBatch(nowhere)) == {
        ("orders", "offset", "dropDuplicates"),
        ("orders", "partition", "dropDuplicates"),
    }


def test_a_watermark_has_its_delay(session: SparkSession, read: Reads) -> None:
    frame = read().withWatermark("timestamp", "90 seconds").dropDuplicatesWithinWatermark(["key"]).select("value")
    found = uses_in_writer(session, frame.writeStream.foreachBatch(nowhere), names_topic=False)
    assert [(use.column, use.operator, use.delay_ms) for use in found] == [("timestamp", "withWatermark", 90_000)]


def test_windows_groups_and_aggregates_are_found(session: SparkSession, read: Reads) -> None:
    frame = (
        read()
        .groupBy(f.window("timestamp", "1 minute"), "topic")
        .agg(f.max_by("value", "offset").alias("newest"), f.count("partition"))
    )
    assert logic(session, frame.writeStream.outputMode("update").foreachBatch(nowhere)) >= {
        ("orders", "timestamp", "groupBy"),
        ("orders", "topic", "groupBy"),
        ("orders", "offset", "max_by"),
    }
    assert not [use for use in uses_in_writer(session, frame.writeStream, names_topic=False) if use[1] == "partition"]


def test_a_join_names_the_source_of_each_column(session: SparkSession, read: Reads) -> None:
    on = f.expr("a.offset = b.offset and b.timestamp >= a.timestamp")
    frame = read().alias("a").join(read("refunds").alias("b"), on).select("a.value")
    assert logic(session, frame.writeStream.foreachBatch(nowhere)) == {
        (source, column, "join") for source in ("orders", "refunds") for column in ("offset", "timestamp")
    }


def test_one_field_of_a_struct_does_not_bring_the_others_along(session: SparkSession, read: Reads) -> None:
    records = read().select(f.struct("*").alias("record"))
    plain = records.select("record.value").where("length(value) > 1")
    assert uses_in_writer(session, plain.writeStream.foreachBatch(nowhere), names_topic=False) == ()
    bound = records.where("record.offset > 1").select("record.value")
    assert logic(session, bound.writeStream.foreachBatch(nowhere)) == {("orders", "offset", "filter")}


def test_a_union_and_a_common_table_expression_are_seen_through(session: SparkSession, read: Reads) -> None:
    numbered = read("refunds").select(f.col("offset").cast("string").cast("binary").alias("value"))
    both = read().select("value").union(numbered)
    assert unknown(session, both.writeStream.foreachBatch(nowhere)) == {"foreachBatch": {Column.OFFSET}}
    read().createOrReplaceTempView("records")
    once = "with some as (select value, offset as at from records)"
    frame = session.sql(f"{once} select value from some where at % 2 = 0 union all select value from some")
    assert logic(session, frame.writeStream.foreachBatch(nowhere)) == {("orders", "offset", "filter")}


def test_a_function_or_a_sink_may_do_anything_with_a_column(session: SparkSession, read: Reads) -> None:
    assert unknown(session, read().writeStream.foreachBatch(nowhere)) == {"foreachBatch": ALL}
    assert unknown(session, read().drop("offset").writeStream.format("parquet")) == {"parquet": ALL - {Column.OFFSET}}
    whole = read().select(f.to_json(f.struct("*")).alias("value"))
    assert unknown(session, whole.writeStream.foreachBatch(nowhere)) == {"foreachBatch": ALL}


def test_a_value_that_is_computed_for_the_sink_is_logic(session: SparkSession, read: Reads) -> None:
    named = read().select(f.concat_ws("-", "partition", "offset").alias("id"), "value")
    assert logic(session, named.writeStream.foreachBatch(nowhere)) == {
        ("orders", "offset", "select"),
        ("orders", "partition", "select"),
    }
    by_function = read().select(f.udf(lambda number: number + 1, "long", useArrow=False)("offset").alias("next"))
    assert logic(session, by_function.where("next > 3").writeStream.foreachBatch(nowhere)) >= {
        ("orders", "offset", "filter")
    }


def test_a_kafka_sink_takes_its_topic_from_a_column_or_an_option(session: SparkSession, read: Reads) -> None:
    writer = read().writeStream.format("kafka")
    assert ("orders", "topic", "the topic column of the Kafka sink") in logic(session, writer)
    assert {use[2] for use in logic(session, writer, names_topic=True)} == {"the partition column of the Kafka sink"}
    assert {use[2] for use in logic(session, writer.option("topic", "out"))} == {
        "the partition column of the Kafka sink"
    }


def test_the_plan_of_a_query_that_runs_says_the_same(session: SparkSession, read: Reads, tmp_path: Path) -> None:
    writer = read().where("offset % 2 = 0").select("value").writeStream.foreachBatch(nowhere)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        found = uses_in_query(session, query, Sink(name="foreachBatch"))
    finally:
        query.stop()
    assert found == uses_in_writer(session, writer, names_topic=False)
    assert [(use.column, use.operator) for use in found] == [("offset", "filter")]
