"""What Spark's event log says of an application: its name, its Spark, its settings, and its streaming queries."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$"
_WANTED = tuple(
    f'{{"Event":"{name}"'
    for name in (
        "SparkListenerLogStart", "SparkListenerApplicationStart", "SparkListenerEnvironmentUpdate",
        f"{_STREAMING}QueryStartedEvent", f"{_STREAMING}QueryProgressEvent",
    )
)  # fmt: skip
_KAFKA = re.compile(r"KafkaV[12]\[(?P<way>Subscribe|SubscribePattern|Assign)\[(?P<what>.*)\]\]\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedSource:
    """A Kafka source as its description names it: by ``Subscribe``, ``SubscribePattern`` or ``Assign``."""

    way: str
    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedQuery:
    """A streaming query, by the id that its checkpoint has, too."""

    id: str
    name: str | None = None
    sources: tuple[LoggedSource, ...] | None = None
    """Its Kafka sources; None where no progress was logged."""
    sink: str | None = None


@dataclass(kw_only=True, slots=True)
class LoggedApplication:
    """One application."""

    where: str
    name: str | None = None
    id: str | None = None
    spark: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    queries: dict[str, LoggedQuery] = field(default_factory=dict)
    """By id."""


def read_application(where: str, lines: Iterable[str]) -> LoggedApplication:
    """Read a log. A line that is cut, as the last one of a driver that was killed, says nothing."""
    found = LoggedApplication(where=where)
    for line in lines:
        if not line.startswith(_WANTED):
            continue
        try:
            event = json.loads(line)
        except ValueError:
            continue
        _take(found, event)
    return found


def _take(found: LoggedApplication, event: Mapping[str, Any]) -> None:
    match event["Event"].removeprefix(_STREAMING):
        case "SparkListenerLogStart":
            found.spark = event.get("Spark Version")
        case "SparkListenerApplicationStart":
            found.name, found.id = event.get("App Name"), event.get("App ID")
        case "SparkListenerEnvironmentUpdate":
            found.conf = dict(event.get("Spark Properties") or {})
        case "QueryStartedEvent":
            known = found.queries.get(str(event["id"]))
            sources, sink = (None, None) if known is None else (known.sources, known.sink)
            found.queries[str(event["id"])] = LoggedQuery(
                id=str(event["id"]), name=event.get("name"), sources=sources, sink=sink
            )
        case "QueryProgressEvent":
            _progress(found, event["progress"])


def _progress(found: LoggedApplication, progress: Mapping[str, Any] | str) -> None:
    report = json.loads(progress) if isinstance(progress, str) else progress
    described = [_KAFKA.match(str(each.get("description"))) for each in report.get("sources") or ()]
    found.queries[str(report["id"])] = LoggedQuery(
        id=str(report["id"]),
        name=report.get("name"),
        sources=tuple(LoggedSource(way=each["way"], what=each["what"]) for each in described if each is not None),
        sink=(report.get("sink") or {}).get("description"),
    )
