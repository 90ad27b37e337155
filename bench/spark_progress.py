"""What Spark reports of each batch: how long it took, and each of its phases.

Spark writes it into an application's event log (``StreamingQueryListener.QueryProgressEvent``, its ``durationMs``). The
milliseconds of ``triggerExecution`` are the whole batch, from its plan to its commit; what it waited for its trigger is
not in it.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BATCH = "triggerExecution"
EVENT = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


def logged_in(folder: Path) -> dict[str, str]:
    """The settings by which an application writes its event log there, as one file of text."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch with data."""

    query: str
    number: int
    phases: Mapping[str, float]
    """By phase its milliseconds."""


def read_batches(folder: Path) -> list[Batch]:
    """The batches with data of all event logs in a folder, in the order in which they ended."""
    lines = (line for file in sorted(folder.iterdir()) for line in file.open(encoding="utf-8"))
    return parsed(lines)


def parsed(lines: Iterable[str]) -> list[Batch]:
    """The batches with data among the lines of event logs. The last line may be half written."""
    found = []
    for line in lines:
        if EVENT not in line or not line.endswith("\n"):
            continue
        progress = json.loads(line)["progress"]
        if sum(source["numInputRows"] for source in progress["sources"]) > 0:
            found.append(Batch(progress["name"], progress["batchId"], progress["durationMs"]))
    return found


def newest(batches: Sequence[Batch], count: int) -> list[Batch]:
    """The last so many batches of each query."""
    names = dict.fromkeys(each.query for each in batches)
    return [each for name in names for each in [one for one in batches if one.query == name][-count:]]


def phase_ms(batches: Sequence[Batch], phase: str) -> float:
    """Milliseconds of a phase in a usual batch: the mean of the middle half, and of that the mean over the queries.

    Spark counts whole milliseconds, so a median could not show one percent of a short batch. Raises ``ValueError``
    where there is no batch.
    """
    names = dict.fromkeys(each.query for each in batches)
    if not names:
        raise ValueError("no batch with data was reported")
    return statistics.mean(
        _middle([each.phases.get(phase, 0.0) for each in batches if each.query == one]) for one in names
    )


def _middle(values: Sequence[float]) -> float:
    cut = len(values) // 4
    return statistics.mean(sorted(values)[cut : len(values) - cut])
