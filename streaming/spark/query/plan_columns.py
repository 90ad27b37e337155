"""Reads from Spark which cluster-bound columns a query uses: its analysed plan as JSON, in one call.

JSON holds neither the options of a source nor the delay of a watermark, so these few are read beside it. A plan that
cannot be read is no reason against a start: its uses are unknown then, and the gates say so.
"""

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.model.column_uses import Column, ColumnUse, ColumnUses
from streaming.meaning.plan_tree import read_plan
from streaming.meaning.uses import Sink, column_uses
from streaming.spark.jvm import (
    JavaObject,
    analysed_plan,
    cause_of,
    java_query,
    java_view,
    java_writer,
    private_field,
    streams_of,
)
from streaming.spark.query.pipeline import SOURCE_OPTION, sink_of

_SUBSCRIBES = ("subscribe", "subscribePattern", "assign")


UNREAD: ColumnUses = tuple(ColumnUse("", column, "a plan that cannot be read", is_logic=False) for column in Column)
"""What is reported of a plan that cannot be read: it may use every column."""


class PlanUnread(Exception):
    """Why the plan of a query could not be read, in one line."""


def uses_in_writer(session: SparkSession, writer: DataStreamWriter, *, names_topic: bool) -> ColumnUses:
    """The uses in what a writer would write; ``names_topic``: the configuration names the topic of its output.

    Raises ``PlanUnread``.
    """
    plan, (name, _) = analysed_plan(writer), sink_of(writer)
    if plan is None:
        raise PlanUnread("this version of Spark keeps the plan of a writer elsewhere")
    options = private_field(java_writer(writer), "extraOptions")
    named = names_topic or (options is not None and bool(options.contains("topic")))
    return uses_in_plan(session, plan, Sink(name=name or "the default sink", names_topic=named))


def uses_in_query(session: SparkSession, query: StreamingQuery, sink: Sink) -> ColumnUses:
    """The uses in a query that runs, whichever program started it. Raises ``PlanUnread``."""
    java = java_query(query)
    try:
        wrapped = str(java.getClass().getSimpleName()) == "StreamingQueryWrapper"
        plan = (java.streamingQuery() if wrapped else java).analyzedPlan()
    except Py4JError as error:
        raise PlanUnread(cause_of(error)) from None
    return uses_in_plan(session, plan, sink)


def uses_in_plan(session: SparkSession, plan: JavaObject, sink: Sink) -> ColumnUses:
    """The uses in an analysed plan. Raises ``PlanUnread``."""
    try:
        text = str(plan.toJSON())
        sources = ["" if options is None else _source_name(options) for options in streams_of(plan)]
        delays = _delays_ms(session, plan) if "EventTimeWatermark" in text else []
        return column_uses(read_plan(text), sources, delays, sink)
    except Py4JError as error:
        raise PlanUnread(cause_of(error)) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PlanUnread(f"{type(error).__name__}: {error}") from None


def _source_name(options: JavaObject) -> str:
    for key in (SOURCE_OPTION, *_SUBSCRIBES):
        value = options.get(key)
        if value is not None:
            return str(value)
    return ""


def _delays_ms(session: SparkSession, plan: JavaObject) -> list[int]:
    """The delay of each watermark, parents before children."""
    watermark = java_view(session).org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
    found, waiting = [], [plan]
    while waiting:
        node = waiting.pop()
        if str(node.getClass().getSimpleName()) == "EventTimeWatermark":
            found.append(int(watermark.getDelayMs(node.delay())))
        children = node.children()
        waiting += [children.apply(index) for index in reversed(range(children.size()))]
    return found
