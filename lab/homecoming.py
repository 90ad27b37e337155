"""The way home after a failover, as docs/failback.md describes it: everything by the two command lines, under load.

The old replicator is ended before the old primary comes up, so that what only that one had stays there: the tail. It is
reported record by record, and the verdict takes the report by its word: one record too many or too few would show.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.stage import GRACE_SECONDS, Stage, await_batches

_AFTER_SECONDS = 4.0


@dataclass(frozen=True, kw_only=True)
class Homecoming:
    """What happened on the way home."""

    exit: int
    operations: Sequence[Mapping[str, Any]]
    """``show-op -o json`` of each query's failback."""
    tail: Mapping[str, Any]
    """``show-op --tail -o json`` of the first query's failover."""
    verdict: Mapping[str, Mapping[str, Any]]
    """``python -m lab verify --on east -o json`` of the queries that went home."""


def carried_of(operations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The operations of the queries that kept their checkpoint: one with a new checkpoint has no exact place."""
    return [operation for operation in operations if operation["plan"]["resume"] != "fresh"]


def come_home(on: Stage, left: Sequence[Mapping[str, Any]], *, rate: int, fault: str) -> Homecoming:
    """Bring east up, turn replication round, and fail back the queries of these operations."""
    on.lab("kill", "replicator")
    on.say("east comes up again; the replicator from east to west stays stopped")
    on.lab("thaw" if fault == "freeze" else "start", "east")
    report = on.directory / "tail.json"
    tail = on.query("show-op", left[0]["id"], "--tail")
    report.write_text(json.dumps(tail, indent=2) + "\n", encoding="utf-8")
    on.say(f"{len(tail['records'])} records are on east alone; replication is reversed: west to east")
    on.lab("turn")
    queries = [operation["query"] for operation in left]
    traffic = on.start_traffic("west", rate, 600)
    await_batches(on, queries, more=3)
    on.say(f"tideover failback {' '.join(queries)} --yes, under {rate:,} records/s")
    code, identities = on.move("failback", *queries, "--reason", "east is back")
    on.stop(traffic)
    on.start_traffic("east", rate, _AFTER_SECONDS).wait(_AFTER_SECONDS + GRACE_SECONDS)
    chosen = [word for query in queries for word in ("--query", query)]
    verdict = on.lab("verify", "--on", "east", "--tail", str(report), *chosen, "--wait", "60", "-o", "json")
    return Homecoming(
        exit=code, operations=[on.query("show-op", each) for each in identities], tail=tail, verdict=json.loads(verdict)
    )
