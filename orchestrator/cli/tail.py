"""The tail of an operation, for people and programs: records that only the cluster that was left had."""

import base64

from orchestrator.cli import render
from orchestrator.cli.context import Context
from orchestrator.decide.outcome import left_ranges
from orchestrator.decide.times import instant
from orchestrator.errors import ExitCode, Refused
from orchestrator.facts.tail import Tail, tail_of
from state.model.entities import Operation

COLUMNS = ("topic", "partition", "offset", "time", "key", "value", "on_standby")
SHOWN_LETTERS = 60
"""Of a key or a value so many letters are shown to a person."""


def show_tail(ctx: Context, operation: Operation, output: str) -> int:
    """Print what an operation left behind, and return the exit code. Raises ``Refused`` and ``KafkaError``."""
    if operation.outcome != "done":
        raise Refused(f"operation {operation.id} moved nothing: it left no records behind")
    if not left_ranges(operation):
        raise Refused(f"operation {operation.id} did not record what {operation.target} lacked")
    tail = tail_of(operation, ctx.log)
    value = tail_json(tail)
    if output in {"json", "yaml"}:
        render.document(value, output)
    else:
        render.show(tail_rows(tail), output, columns=COLUMNS)
        came = sum(each.on_standby for each in tail.records)
        render.talk(
            f"{operation.target} lacked {len(tail.records)} records of {operation.source} when {operation.query} left; "
            f"{came} have come there since"
        )
    for each in tail.partitions:
        if each.why:
            render.talk(f"{each.topic}-{each.partition}: {each.why}")
    return ExitCode.DONE if tail.is_whole else ExitCode.UNKNOWN


def tail_json(tail: Tail) -> dict[str, object]:
    """What an operation left behind on the old cluster, each record in full."""
    return {
        "operation": tail.operation.id,
        "query": tail.operation.query,
        "cluster": tail.operation.source,
        "standby": tail.operation.target,
        "whole": tail.is_whole,
        "partitions": [
            {
                "topic": each.topic, "partition": each.partition, "first": each.first, "last": each.last,
                "counted": each.counted, "listed": len(each.records), "why": each.why,
            }
            for each in tail.partitions
        ],
        "records": [
            {
                "topic": each.topic, "partition": each.partition, "offset": each.record.offset,
                "timestamp_ms": each.record.timestamp_ms, "key": _content(each.record.key),
                "value": _content(each.record.value),
                "headers": [[name, _content(value)] for name, value in each.record.headers],
                "on_standby": each.on_standby,
            }
            for each in tail.records
        ],
    }  # fmt: skip


def _content(given: bytes | None) -> str | dict[str, str] | None:
    """Text, or ``{"base64": ...}`` where it is none: nothing of it is lost."""
    if given is None:
        return None
    try:
        return given.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(given).decode()}


def tail_rows(tail: Tail) -> list[dict[str, object]]:
    """The same records as a person looks through them."""
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "offset": each.record.offset,
            "time": instant(each.record.timestamp_ms),
            "key": _shown(each.record.key),
            "value": _shown(each.record.value),
            "on_standby": each.on_standby,
        }
        for each in tail.records
    ]


def _shown(given: bytes | None) -> str:
    if given is None:
        return "-"
    text = given.decode(errors="replace")
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= SHOWN_LETTERS else f"{shown[: SHOWN_LETTERS - 3]}..."
