"""Adds up Spark's progress reports of one run; pure.

A report of a batch that ran has ``addBatch`` among its durations; idle triggers report too, with the id of the batch
that comes next.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from state.protocol import Offsets

Report = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """What a run's batches did so far."""

    batch: int | None = None
    """The newest batch that is counted in."""
    input_rows: int | None = None
    dropped_late_rows: int | None = None
    seconds: float | None = None
    """Duration of the newest batch."""

    def after(self, reports: Iterable[Report]) -> "Totals":
        """The totals with every batch counted in that is newer than those before."""
        totals = self
        for report in reports:
            batch = report["batchId"]
            if "addBatch" in report["durationMs"] and (totals.batch is None or batch > totals.batch):
                totals = replace(
                    totals,
                    batch=batch,
                    input_rows=(totals.input_rows or 0) + int(report["numInputRows"]),
                    dropped_late_rows=(totals.dropped_late_rows or 0) + _dropped(report),
                    seconds=report["durationMs"].get("triggerExecution", 0) / 1000,
                )
        return totals


def rows_by_source(report: Report, offsets: Offsets) -> dict[str, int]:
    """Rows that a batch read per declared source, which a report knows by the end of its offsets only."""
    found: dict[str, int] = {}
    for source in report["sources"]:
        end = source["endOffset"]
        end = json.loads(end) if isinstance(end, str) else end
        names = [name for name, own in offsets.items() if own == end]
        if len(names) == 1:
            found[names[0]] = int(source["numInputRows"])
    return found


def _dropped(report: Report) -> int:
    return sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in report.get("stateOperators", ()))
