"""How the queries of Spark's golden checkpoints continue: query, rows, answers, as Spark's own suites have them.

Where a suite's next batch would come out the same without any state, it has a row more here that needs some; where a
suite only reads the state, the answer follows from the batches that it names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from streaming.spark.jvm import java_view
from tests.real.memory import grouped, new_instance, row_encoder

Rows = Sequence[object]
"""Tuples; or values, of a source with one column."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is added at once, by source, and all rows that come of it, in order."""

    rows: Mapping[int, Rows]
    answer: Rows = ()
    watermark: int | None = None
    """Seconds, of the last batch; None where it is not requested."""


def step(rows: Rows, answer: Rows = ()) -> Step:
    return Step(rows={0: rows}, answer=answer)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A query, what its checkpoint has read of it, and how it continues."""

    query: Callable[..., DataFrame]
    """From a frame for each source."""
    read: Sequence[Rows | Mapping[int, Rows]]
    """Rows of the first source, or of others by their number."""
    steps: Sequence[Step]
    mode: str = "append"
    columns: str = "value INT NOT NULL"
    sources: int = 1
    conf: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    """One run with one batch: a query with timeouts in processing time never says that it is idle."""


def count(frame: DataFrame) -> DataFrame:
    return frame.groupBy("value").agg(f.count("*"))


def multiples(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("value AS key1", "value * 2 AS key2", "value * 3 AS value")


def distinct_multiples(frame: DataFrame) -> DataFrame:
    return multiples(frame).dropDuplicates(["key1", "key2"])


def distinct_multiples_by_one_key(frame: DataFrame) -> DataFrame:
    return multiples(frame).repartition("key1").dropDuplicates(["key1", "key2"])


def count_multiples_by_one_key(frame: DataFrame) -> DataFrame:
    return multiples(frame).repartition("key1").groupBy("key1", "key2").agg(f.count("*"))


def count_windows(frame: DataFrame) -> DataFrame:
    timed = frame.withColumn("eventTime", f.timestamp_seconds("value")).withWatermark("eventTime", "10 seconds")
    counted = timed.groupBy(f.window("eventTime", "5 seconds").alias("window")).agg(f.count("*").alias("count"))
    return counted.select(f.col("window.start").cast("long"), "count")


def two_watermarks(one: DataFrame, other: DataFrame) -> DataFrame:
    timed = [
        frame.withColumn("eventTime", f.timestamp_seconds("value")).withWatermark("eventTime", delay)
        for frame, delay in ((one, "10 seconds"), (other, "15 seconds"))
    ]
    return timed[0].union(timed[1]).select(f.col("eventTime").cast("int"))


def join_with_itself(frame: DataFrame) -> DataFrame:
    both = frame.select(f.col("_1").alias("value"), f.timestamp_seconds("_2").alias("timestamp"))
    left = both.selectExpr("value AS leftId", "timestamp AS leftTime").withWatermark("leftTime", "5 seconds")
    even = both.where("value % 2 = 0")
    right = even.selectExpr("value AS rightId", "timestamp AS rightTime").withWatermark("rightTime", "5 seconds")
    near = "rightId = leftId AND rightTime >= leftTime AND rightTime <= leftTime + interval 5 seconds"
    return left.join(right, f.expr(near), "inner").selectExpr(
        "leftId", "CAST(leftTime AS INT)", "rightId", "CAST(rightTime AS INT)"
    )


def count_sessions(frame: DataFrame) -> DataFrame:
    timed = frame.selectExpr("_1 AS value", "_2 AS userId", "CAST(_3 AS TIMESTAMP) AS eventTime")
    events = timed.withWatermark("eventTime", "30 seconds").selectExpr(
        "explode(split(value, ' ')) AS sessionId", "userId", "eventTime"
    )
    session = f.session_window("eventTime", "10 seconds").alias("session")
    counted = events.repartition("userId").groupBy(session, "sessionId", "userId").agg(f.count("*").alias("numEvents"))
    start, end = "CAST(session.start AS LONG)", "CAST(session.end AS LONG)"
    return counted.selectExpr("sessionId", "userId", start, end, f"{end} - {start} AS durationMs", "numEvents")


def _many_types(frame: DataFrame) -> DataFrame:
    return frame.selectExpr(
        "value", "value % 5 AS id", "CAST(value AS STRING) AS str", "CAST(value AS FLOAT) AS f",
        "CAST(value AS DOUBLE) AS d", "CAST(value AS DECIMAL) AS dec", "value % 3 AS mod",
        "named_struct('key', CAST(value AS STRING), 'value', value) AS s",
    )  # fmt: skip


def common_functions(frame: DataFrame) -> DataFrame:
    functions = (
        "avg(value) AS avg_v", "avg(f) AS avg_f", "avg(d) AS avg_d", "avg(dec) AS avg_dec", "count(value) AS cnt",
        "first(value) AS first_v", "first(s) AS first_s", "last(value) AS last_v", "last(s) AS last_s",
        "min(struct(value, str)) AS min_struct", "max(value) AS max_v", "sum(value) AS sum_v", "sum(f) AS sum_f",
        "sum(d) AS sum_d", "collect_list(value) AS col_list", "collect_set(mod) AS col_set",
    )  # fmt: skip
    return _many_types(frame).groupBy("id").agg(*map(f.expr, functions)).select(
        "id", "avg_v", "avg_f", "avg_d", "avg_dec", "cnt", "first_v", "first_s.value", "last_v", "last_s.value",
        "min_struct.value", "max_v", "sum_v", "sum_f", "sum_d", "col_list", "col_set",
    )  # fmt: skip


def statistical_functions(frame: DataFrame) -> DataFrame:
    functions = (
        "kurtosis(d)", "skewness(d)", *(f"approx_count_distinct({name})" for name in ("mod", "f", "d", "dec", "str")),
        "stddev_pop(d)", "stddev_samp(d)", "var_pop(d)", "var_samp(d)", "covar_pop(value, mod)",
        "covar_samp(value, mod)", "corr(value, mod)",
    )  # fmt: skip
    return _many_types(frame).groupBy("id").agg(*map(f.expr, functions))


def sum_of_decimals(frame: DataFrame) -> DataFrame:
    typed = frame.selectExpr("value", "value % 2 AS id", "CAST(value AS DECIMAL) AS dec")
    return typed.groupBy("id").agg(f.sum("dec").alias("sum_dec"), f.collect_list("value").alias("col_list"))


def distinct_of_all_columns(frame: DataFrame) -> DataFrame:
    wide = frame.selectExpr(
        "value",
        "value + 10 AS key",
        "CAST(value AS STRING) AS topic",
        "value + 100 AS partition",
        "value + 5 AS offset",
    )
    return wide.dropDuplicates().select("key", "value", "topic", "partition", "offset")


LATEST = """
package golden;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.GroupState;

public class Latest implements org.apache.spark.api.java.function.FlatMapGroupsWithStateFunction {
  public Iterator call(Object key, Iterator values, GroupState state) {
    long latest = -1;
    if (state.hasTimedOut()) {
      state.remove();
    } else {
      latest = state.exists() ? ((Row) state.get()).getLong(0) : 0;
      while (values.hasNext()) latest = Math.max(latest, ((Row) values.next()).getTimestamp(1).getTime() / 1000);
      state.update(RowFactory.create(new Object[] {Long.valueOf(latest)}));
      state.setTimeoutTimestamp((latest + 5) * 1000);
    }
    Object[] answer = {((Row) key).get(0), Long.valueOf(latest)};
    return Collections.singleton(RowFactory.create(answer)).iterator();
  }
}
"""
COUNTS = """
package golden;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.GroupState;

public class Counts implements org.apache.spark.api.java.function.FlatMapGroupsWithStateFunction {
  public Iterator call(Object key, Iterator values, GroupState state) {
    long count = -1;
    if (state.hasTimedOut()) {
      state.remove();
    } else {
      count = state.exists() ? ((Row) state.get()).getLong(0) : 0;
      for (; values.hasNext(); values.next()) count++;
      state.update(RowFactory.create(new Object[] {Long.valueOf(count)}));
      state.setTimeoutDuration("1 hour");
    }
    Object[] answer = {((Row) key).get(0), ((Row) key).get(1), Long.valueOf(count)};
    return Collections.singleton(RowFactory.create(answer)).iterator();
  }
}
"""
"""Spark's suite counts a timeout of 10 s on a clock of its own; on the real one it is over when the query continues."""
PROCESSOR = "org/apache/spark/sql/streaming/RunningCountStatefulProcessor.class"
"""In the tests jar; it needs no other class of it."""


def latest_with_state(frame: DataFrame) -> DataFrame:
    session = frame.sparkSession
    timed = frame.selectExpr("_1 AS key", "timestamp_seconds(_2) AS eventTime").withWatermark("eventTime", "10 seconds")
    streaming = java_view(session).org.apache.spark.sql.streaming
    groups = grouped(timed, ["key"], row_encoder(session, "key STRING"), timed._jdf.encoder())
    made = groups.flatMapGroupsWithState(
        new_instance(session, "golden.Latest"), streaming.OutputMode.Update(),
        row_encoder(session, "value BIGINT NOT NULL"), row_encoder(session, "key STRING, latest BIGINT"),
        streaming.GroupStateTimeout.EventTimeTimeout(),
    )  # fmt: skip
    return DataFrame(made.toDF(), session)


def count_with_state(frame: DataFrame) -> DataFrame:
    session = frame.sparkSession
    key = row_encoder(session, "key1 STRING, key2 STRING")
    timed = frame.selectExpr("_1 AS key1", "_2 AS key2", "timestamp_seconds(_3) AS timestamp")
    events = timed.withWatermark("timestamp", "10 second").repartition("key1")
    streaming = java_view(session).org.apache.spark.sql.streaming
    groups = grouped(events, ["key1", "key2"], key, events._jdf.encoder())
    made = groups.flatMapGroupsWithState(
        new_instance(session, "golden.Counts"), streaming.OutputMode.Update(),
        row_encoder(session, "count BIGINT NOT NULL"), row_encoder(session, "key1 STRING, key2 STRING, cnt BIGINT"),
        streaming.GroupStateTimeout.ProcessingTimeTimeout(),
    )  # fmt: skip
    return DataFrame(made.toDF(), session)


def running_count(frame: DataFrame) -> DataFrame:
    session = frame.sparkSession
    sql = java_view(session).org.apache.spark.sql
    text = sql.Encoders.STRING()
    made = grouped(frame, ["value"], text, text).transformWithState(
        new_instance(session, PROCESSOR.removesuffix(".class").replace("/", ".")),
        getattr(sql.streaming.TimeMode, "None")(), sql.streaming.OutputMode.Update(), sql.Encoders.tuple(text, text),
    )  # fmt: skip
    return DataFrame(made.toDF(), session)


def pairs(*numbers: int) -> list[tuple[int, int]]:
    return [(number, number) for number in numbers]


_PAIRS = "_1 INT NOT NULL, _2 BIGINT NOT NULL"
_NAMED: dict[str, Any] = {"columns": "_1 STRING, _2 INT NOT NULL, _3 STRING"}
_TIMED: dict[str, Any] = {"columns": "_1 STRING, _2 STRING, _3 BIGINT NOT NULL"}
_STORE = "spark.sql.streaming.stateStore"
_AGAIN = (pairs(1, 2, 3), pairs(2, 3, 4), pairs(3, 4, 5), pairs(4, 5, 6))

DEDUPLICATION = Scenario(
    query=lambda frame: frame.dropDuplicates(["_1"]), **_NAMED,
    read=([("a", 1, "dummy")], [("a", 2, "dummy"), ("b", 3, "dummy")]),
    steps=[step([("a", 5, "a"), ("b", 2, "b"), ("c", 9, "c")], [("c", 9, "c")])],
)  # fmt: skip
JOIN = Scenario(
    query=join_with_itself, columns=_PAIRS, read=[pairs(1, 2, 3, 4, 5)],
    steps=[
        step(
            [*pairs(6, 7, 8, 9, 10), (4, 2)],
            [(4, 2, 4, 2), (4, 2, 4, 4), (6, 6, 6, 6), (8, 8, 8, 8), (10, 10, 10, 10)],
        )
    ],
)  # fmt: skip
COUNT_WITH_STATE = Scenario(
    query=count_with_state, **_TIMED, mode="update", once=True, read=[[("a", "a", 1)]],
    steps=[step([("a", "b", 1)], [("a", "a", -1), ("a", "b", 1)])],
)  # fmt: skip
RUNNING_COUNT = Scenario(
    query=running_count, columns="value STRING", mode="update", read=(["a"], ["b"]), steps=[step(["a"])]
)
OF_4_0 = {
    "agg": Scenario(
        query=lambda frame: frame.groupBy("_1").count(), columns=_PAIRS, mode="update", read=_AGAIN,
        steps=[step(pairs(5, 6, 7), [(5, 3), (6, 2), (7, 1)])],
    ),
    "dedup": Scenario(
        query=lambda frame: frame.dropDuplicates(["_1"]), columns=_PAIRS, read=_AGAIN,
        steps=[step(pairs(1, 6, 7), [(7, 7)])],
    ),
    "limit": Scenario(
        query=lambda frame: frame.limit(10), columns=_PAIRS,
        read=(pairs(1, 2, 3), pairs(4, 5, 6), pairs(7, 8, 9), pairs(10, 11, 12)), steps=[step(pairs(13))],
    ),
    "join": Scenario(
        query=join_with_itself, columns=_PAIRS,
        read=(pairs(1, 2, 3, 4, 5), pairs(6, 7, 8, 9, 10), pairs(11, 12, 13, 14, 15)),
        steps=[
            step(
                [(14, 12), (14, 16), (2, 2)],
                [(14, 12, 14, 12), (14, 12, 14, 14), (14, 12, 14, 16), (14, 14, 14, 16), (14, 16, 14, 16)],
            )
        ],
    ),
}  # fmt: skip

_V = "checkpoint-version"
SCENARIOS: Mapping[str, Scenario] = {
    f"{_V}-2.3.1-flatMapGroupsWithState-state-format-1": Scenario(
        query=latest_with_state, columns="_1 STRING, _2 INT NOT NULL", mode="update",
        read=([("a", 11), ("a", 13), ("a", 15)], [("a", 4)]),
        steps=[step([("a", 10)], [("a", 15)]), step([("b", 31)], [("a", -1), ("b", 31)])],
    ),
    f"{_V}-2.3.1-for-multi-watermark-policy": Scenario(
        query=two_watermarks, sources=2, read=({0: [20]}, {1: [30]}, {0: [10]}),
        conf={"spark.sql.streaming.multipleWatermarkPolicy": "max"},
        steps=[
            Step(rows={0: [120], 1: [130]}, answer=[120, 130]), Step(rows={1: [1]}, answer=[1], watermark=110),
            Step(rows={1: [150]}, answer=[150]), Step(rows={1: [1]}, answer=[1], watermark=110),
        ],
    ),
    f"{_V}-2.3.1-streaming-aggregate-state-format-1": Scenario(
        query=count, mode="update", read=([3], [3, 2]),
        steps=[step([3, 2, 1], [(1, 1), (2, 2), (3, 3)]), step([4, 4, 4, 4], [(4, 4)])],
    ),
    f"{_V}-2.3.1-without-commit-log-metadata": Scenario(
        query=count_windows, read=([15], [10, 12, 14]),
        steps=[step([25], [(10, 3)]), step([50], [(15, 1), (25, 1)]), step([50])],
    ),
    f"{_V}-2.4.5-for-compatibility-test-common-functions": Scenario(
        query=common_functions, mode="complete", read=[range(10)],
        steps=[
            step(
                range(10, 20),
                [
                    (n, n + 7.5, n + 7.5, n + 7.5, n + 7.5, 4, n, n, n + 15, n + 15, n, n + 15, 4 * n + 30,
                     4 * n + 30.0, 4 * n + 30.0, [n, n + 5, n + 10, n + 15], [0, 1, 2])
                    for n in range(5)
                ],
            )
        ],
    ),
    f"{_V}-2.4.5-for-compatibility-test-deduplicate": Scenario(
        query=distinct_of_all_columns, columns="value BIGINT NOT NULL", read=[range(5)],
        steps=[step([3, 4, 5, 6], [(15, 5, "5", 105, 10), (16, 6, "6", 106, 11)])],
    ),
    f"{_V}-2.4.5-for-compatibility-test-statistical-functions": Scenario(
        query=statistical_functions, columns="value BIGINT NOT NULL", mode="complete", read=[range(10)],
        steps=[
            step(
                range(10, 20),
                [
                    (n, -1.36, 0.0, 3, 4, 4, 4, 4, 5.5901699437494745, 6.454972243679028, 31.25, 41.666666666666664,
                     *((1.25, 1.6666666666666667, 0.31622776601683794) if n % 3 == 1
                       else (-0.625, -0.8333333333333334, -0.13483997249264842)))
                    for n in range(5)
                ],
            )
        ],
    ),
    f"{_V}-3.0.0-streaming-statestore-codec": Scenario(
        query=count, mode="update", read=[[1, 2, 3]], steps=[step([1, 2], [(1, 2), (2, 2)])]
    ),
    f"{_V}-3.1.0-flatmapgroupswithstate-repartition": COUNT_WITH_STATE,
    f"{_V}-3.2.0-deduplication-with-repartition": Scenario(
        query=distinct_multiples_by_one_key, mode="update", read=([1, 1, 2], [3, 4]),
        steps=[step([2, 3, 4, 5], [(5, 10, 15)])],
    ),
    f"{_V}-3.2.0-flatmapgroupswithstate1-repartition": replace(  # the first batch read an initial state, (c, c)
        COUNT_WITH_STATE, steps=[step([("a", "b", 1)], [("a", "a", -1), ("a", "b", 1), ("c", "c", -1)])]
    ),
    f"{_V}-3.2.0-flatmapgroupswithstate2-repartition": COUNT_WITH_STATE,
    f"{_V}-3.2.0-session-window-with-repartition": Scenario(
        query=count_sessions, **_TIMED, read=[
            [("hello world spark streaming", "key1", 40), ("world hello structured streaming", "key2", 41)]
        ],
        conf={"spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition": "false"},
        steps=[
            step([("spark streaming", "key1", 25)]),
            step(
                [("hello", "key1", 90)],
                [
                    ("hello", "key1", 40, 50, 10, 1), ("hello", "key2", 41, 51, 10, 1),
                    ("spark", "key1", 25, 35, 10, 1), ("spark", "key1", 40, 50, 10, 1),
                    ("streaming", "key1", 25, 35, 10, 1), ("streaming", "key1", 40, 50, 10, 1),
                    ("streaming", "key2", 41, 51, 10, 1), ("structured", "key2", 41, 51, 10, 1),
                    ("world", "key1", 40, 50, 10, 1), ("world", "key2", 41, 51, 10, 1),
                ],
            ),
        ],
    ),
    f"{_V}-3.2.0-streaming-aggregate-with-repartition": Scenario(
        query=count_multiples_by_one_key, mode="update", read=([3], [3, 2]),
        steps=[step([3, 2, 1], [(1, 2, 1), (2, 4, 2), (3, 6, 3)])],
    ),
    f"{_V}-3.3.0-streaming-deduplication": DEDUPLICATION,
    f"{_V}-3.5.1-streaming-deduplication": DEDUPLICATION,
    f"{_V}-3.5.1-streaming-join": JOIN,
    **{
        f"{_V}-4.0.0{store}/{name}": replace(OF_4_0[name.rstrip("12")], conf=conf)
        for store, conf in (
            ("/hdfs", {}), ("/rocksdb", {}), ("-checkpoint-v2/rocksdb", {f"{_STORE}.checkpointFormatVersion": "2"}),
        )
        for name in ("agg", "dedup", "join1", "join2", "limit")
        if (store, name) != ("-checkpoint-v2/rocksdb", "agg")
    },
    f"{_V}-4.0.1-dedup-spark-53942": Scenario(
        query=distinct_multiples, read=[[1, 1, 2, 3, 4]], conf={"spark.sql.shuffle.partitions": "1"},
        steps=[step([2, 3, 3, 4, 5], [(5, 10, 15)])],
    ),
    "escaped-path-2.4.0/chk%252520%252525@%252523chk": Scenario(
        query=lambda frame: frame, read=[[1, 2, 3]], steps=[step([4], [4])]
    ),
}  # fmt: skip
REFUSED_BY_SPARK: Mapping[str, tuple[Scenario, str]] = {
    # its suites restart this one, with a writer that Spark has for its suites only
    f"{_V}-2.4.0-streaming-join": (JOIN, "Unsupported schema writer version: 1"),
    f"{_V}-2.4.5-for-compatibility-test-sum-decimal": (
        Scenario(query=sum_of_decimals, mode="complete", read=[range(10)], steps=[step(range(10, 20))]),
        "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
    ),
    # of a Spark that was not 4.0.0 yet; Spark's suites only read its logs
    f"{_V}-4.0.0-tws-avro": (RUNNING_COUNT, "No usable value for numInternalKeys"),
    f"{_V}-4.0.0-tws-unsaferow": (RUNNING_COUNT, "No usable value for numInternalKeys"),
}  # fmt: skip
LEFT_OUT: Mapping[str, str] = {
    f"{_V}-2.1.0": "Spark 2.1 had no commit log: the carry refuses it",
    "checkpoint-test-offsetId-commitId-inconsistent": "a batch is missing: the carry refuses it, and so does Spark",
    f"{_V}-3.5.4": "only in the jar of Spark 3.5.7; nothing of it is stateful",
}
