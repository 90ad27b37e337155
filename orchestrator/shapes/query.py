"""The JSON shapes of one query: all that the store knows of it, and what was measured of its standby."""

from collections.abc import Sequence
from datetime import datetime

from orchestrator.decide.replication_age import replication_json
from orchestrator.decide.status import QueryStatus
from orchestrator.decide.times import iso
from orchestrator.shapes import json_shapes
from state.model.entities import EVERY_KIND
from state.model.maintenance import StandbySample
from state.settings.keys import Query
from state.store.controller_store import ControllerStore

NEWEST = 5
"""How many operations of it are shown."""


def query_json(store: ControllerStore, declared: Query | None, shown: QueryStatus, now: datetime) -> dict[str, object]:
    """The shape of ``show -o json``; ``declared`` is None for a query that only the store knows. ``StoreError``."""
    names = declared.runners if declared is not None else (shown.runner,)
    row = json_shapes.list_row(shown, now)
    runners = [json_shapes.runner_row(fact, now) for fact in store.runners() if fact.runner in names]
    hosting = next((each for each in runners if each["runner"] == shown.runner), None)
    newest = store.operations(query=shown.query, limit=NEWEST, kinds=EVERY_KIND)
    return {
        **row,
        "runner": hosting or {"runner": row["runner"], "warm": None},
        "checkpoint": shown.checkpoint,
        "report": json_shapes.fact_detail(shown.report),
        "runners": runners,
        "positions": json_shapes.position_rows(store.positions(shown.query)),
        "operations": [json_shapes.move_row(operation) for operation in newest],
        "requests": [json_shapes.request_row(request) for request in shown.requests],
        "automatic": json_shapes.automatic_json(shown),
        "readiness": json_shapes.readiness_json(shown.readiness),
        "replication": replication_json(store.replication(shown.query), now),
        "drill": json_shapes.drill_row(shown.drill),
    }


def samples_json(samples: Sequence[StandbySample], limit_seconds: float) -> dict[str, object]:
    """The shape of ``samples`` in ``docs/programs.md``."""
    return {
        "limit_seconds": limit_seconds,
        "samples": [
            {
                "at": iso(each.sampled_at),
                "source": each.source,
                "target": each.target,
                "ready": each.ready,
                "exposure_records": each.exposure_records,
                "exposure_seconds": each.exposure_seconds,
                "copy_age_seconds": each.copy_age_seconds,
            }
            for each in samples
        ],
    }
