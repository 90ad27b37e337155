"""A situation as text that fits a terminal, and as JSON; pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from orchestrator.cli import render, shapes
from orchestrator.decide.automatic import cooldown_text, paused_text
from orchestrator.decide.situation import Leader, QueryView, Situation
from orchestrator.decide.times import iso
from state.model import Operation
from state.sighting import Belief, Layer

QUERY_COLUMNS = ("query", "cluster", "runner", "state", "progress", "lag", "automatic", "ready", "operation", "error")
_FEWEST = 2
"""So many lines of each section are shown even where they do not fit."""
_EVENTS_FOR_PROGRAMS = 10
_TITLES_OF_TABLE = 2
_TITLES = 3 + _TITLES_OF_TABLE
_LEAST_BELOW = _TITLES + 2 * _FEWEST + 4
"""Lines of queries and history, and the titles of what stands above them."""
_ENDLESS = 1_000_000


def text(situation: Situation, *, width: int | None = None, height: int | None = None, away: str = "") -> str:
    """The whole picture, or as much of it as fits: queries that are well and old lines of history go first.

    ``away`` says why the store does not answer; the picture is then of before.
    """
    head = [_head(situation, away), ""]
    head += ["CLUSTERS", *_clusters(situation), ""]
    some = _ENDLESS if height is None else max(_FEWEST, (height - len(head) - _LEAST_BELOW) // 3)
    if situation.operations:
        head += ["OPERATIONS", *_few([_operation(each, situation.at) for each in situation.operations], some), ""]
    held_back = _held_back(situation)
    if held_back:
        head += ["HELD BACK", *_few(held_back, some), ""]
    events = _events(situation)
    room = _ENDLESS if height is None else height - len(head) - _TITLES
    queries = _queries(situation, max(_FEWEST, room - min(len(events), _FEWEST)))
    told = len(events) if height is None else max(_FEWEST, room - len(queries) + _TITLES_OF_TABLE)
    lines = [*head, "QUERIES", *queries, "", "HISTORY", *(events[-told:] or ["  nothing yet"])]
    return "\n".join(line if width is None else render.cut(line, width) for line in lines[:height])


def _head(situation: Situation, away: str) -> str:
    at = f"{situation.at:%Y-%m-%d %H:%M:%S} UTC"
    if away:
        return f"THE STORE DOES NOT ANSWER: {away}; this is how it was at {at}"
    return f"{at}   {_leader(situation.leader)}"


def _leader(leader: Leader | None) -> str:
    if leader is None:
        return "NOBODY LEADS: nothing is decided until a controller does (tideover control)"
    host, _, rest = leader.holder.partition("/")
    process = f"{host}, pid {rest.split(':')[2]}" if rest.count(":") == 3 else leader.holder
    who = "a command" if leader.name is None else f"controller {leader.name}"
    return f"{who} leads ({process}), term {leader.term}"


def _clusters(situation: Situation) -> list[str]:
    rows = [_cluster(name, belief, situation) for name, belief in situation.clusters.items()]
    names, verdicts, ages = (max(len(row[column]) for row in rows) for column in range(3))
    return [
        f"  {name:<{names}}  {verdict:<{verdicts}}  {age:<{ages}}  {reason}".rstrip()
        for name, verdict, age, reason in rows
    ]


def _cluster(name: str, belief: Belief | None, situation: Situation) -> tuple[str, str, str, str]:
    if belief is None:
        return name, "-", "", "nobody has looked at it yet"
    old = situation.is_stale(belief)
    reasons = (f"said {_for(situation.at - belief.decided_at)} ago, and nobody says it now",) if old else ()
    verdict = f"{belief.verdict}?" if old else belief.verdict.value
    return name, verdict, f"for {_for(situation.at - belief.since)}", "; ".join((*reasons, *belief.reasons))


def _operation(operation: Operation, at: datetime) -> str:
    what = f"{operation.kind} of {operation.query} from {operation.source} to {operation.target}"
    return f"  {operation.id}  {what}: {operation.phase} for {_for(at - operation.started_at)}: {operation.sentence}"


def _held_back(situation: Situation) -> list[str]:
    pauses = [paused_text(pause) for pause in situation.pauses]
    cooldowns = [cooldown_text(each, query) for query, each in sorted(situation.cooldowns.items())]
    return [f"  {line}" for line in (*pauses, *cooldowns, *situation.waiting)]


def _few(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most - 1], f"  ... and {len(lines) - most + 1} more"]


def _queries(situation: Situation, room: int) -> list[str]:
    """A table of so many rows at most; queries that somebody should look at come first."""
    ordered = sorted(situation.queries, key=lambda each: (situation.is_well(each), each.query))
    shown = ordered if len(ordered) <= room else ordered[: room - 1]
    columns = QUERY_COLUMNS if any(each.error for each in shown) else QUERY_COLUMNS[:-1]
    lines = render.table([_row(each, situation.at) for each in shown], columns, indent="  ").splitlines()
    rest = ordered[len(shown) :]
    if rest:
        lines.append(f"  ... and {len(rest)} more, {sum(map(situation.is_well, rest))} of them well")
    return lines


def _row(query: QueryView, at: datetime) -> dict[str, object]:
    return {
        "query": query.query,
        "cluster": query.cluster,
        "runner": query.runner,
        "state": query.state,
        "progress": f"{_for(at - query.progressed_at)} ago" if query.progressed_at else None,
        "lag": query.lag_records,
        "automatic": query.automatic,
        "ready": query.ready,
        "operation": query.operation,
        "error": query.error and query.error.partition("\n")[0],
    }


def _events(situation: Situation) -> list[str]:
    return [f"  {event.at:%H:%M:%S}  {event.kind:<9}  {render.cell(event.text)}" for event in situation.events]


def _for(passed: timedelta) -> str:
    """A length of time in its two largest units."""
    seconds = max(0, int(passed.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    for size, unit, smaller, smaller_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // smaller} {smaller_unit}"
    raise AssertionError("a minute is the smallest of these")


def as_json(situation: Situation) -> dict[str, object]:
    """The shape of ``watch -o json``."""
    leader = situation.leader
    return {
        "at": iso(situation.at),
        "leader": None if leader is None else {"name": leader.name, "holder": leader.holder, "term": leader.term},
        "clusters": [_cluster_json(name, belief, situation) for name, belief in situation.clusters.items()],
        "queries": [_query_json(query, situation.at) for query in situation.queries],
        "operations": [_operation_json(operation) for operation in situation.operations],
        "pauses": [shapes.pause_row(pause) for pause in situation.pauses],
        "cooldowns": [
            {"query": query, "operation": each.operation, "until": iso(each.until)}
            for query, each in sorted(situation.cooldowns.items())
        ],
        "events": [shapes.event_row(event) for event in situation.events[-_EVENTS_FOR_PROGRAMS:]],
    }


def _cluster_json(name: str, belief: Belief | None, situation: Situation) -> dict[str, object]:
    if belief is None or situation.is_stale(belief):
        return {"cluster": name, "verdict": None, "since": None, "reasons": [], "layers_ms": None}
    look = situation.looks.get(name)
    return {
        "cluster": name,
        "verdict": belief.verdict.value,
        "since": iso(belief.since),
        "reasons": list(belief.reasons),
        "layers_ms": None if look is None else {layer.value: look.layers_ms.get(layer) for layer in Layer},
    }


def _query_json(query: QueryView, at: datetime) -> dict[str, object]:
    age = None if query.progressed_at is None else round(max(0.0, (at - query.progressed_at).total_seconds()), 1)
    return {
        "query": query.query,
        "cluster": query.cluster,
        "runner": query.runner,
        "epoch": query.epoch,
        "state": query.state,
        "batch": query.batch,
        "progress_age_seconds": age,
        "lag_records": query.lag_records,
        "operation": query.operation,
        "automatic": query.automatic,
        "ready": query.ready,
        "error": query.error,
    }


def _operation_json(operation: Operation) -> dict[str, object]:
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "query": operation.query,
        "from": operation.source,
        "to": operation.target,
        "epoch": operation.epoch,
        "phase": operation.phase.value,
        "sentence": operation.sentence,
        "actor": operation.actor,
        "started_at": iso(operation.started_at),
    }


_FLOWS = frozenset({"at", "reasons", "layers_ms", "batch", "progress_age_seconds", "lag_records"})
"""What is another at every look, though nothing has changed."""


def lasting(value: object) -> object:
    """The part of a situation's JSON that changes only when something happens."""
    if isinstance(value, Mapping):
        return {name: lasting(inner) for name, inner in value.items() if name not in _FLOWS}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [lasting(inner) for inner in value]
    return value
