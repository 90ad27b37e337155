"""Which queries the overview lists, in which order, and how many there are of each kind. Pure.

What is chosen is in the address of the page. So it works without scripts, it stays when the page is fetched again, and
a reader can send it to another one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from orchestrator.decide.desk.lines import QueryLine
from state.model.entities import RunState

Only = Literal["away", "not-ready", "failing", "waiting", "moving"]
Sort = Literal["attention", "query", "cluster", "state", "progress", "lag", "exposure", "copy"]
COMPACT_FROM = 16
"""From this many queries on they are shown as compact cards first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What a reader chose; the default is all queries, those that need attention first."""

    find: str = ""
    """A part of a query's name, its runner's or a label, in small or capital letters."""
    only: Only | None = None
    cluster: str | None = None
    source: str | None = None
    """With ``target``: only queries whose copies go this way."""
    target: str | None = None
    sort: Sort = "attention"


def chosen_of(lines: Iterable[QueryLine], chosen: Chosen) -> list[QueryLine]:
    """Those lines, in that order."""
    found = [line for line in lines if _is_wanted(line, chosen)]
    return sorted(found, key=_ORDERS[chosen.sort]) if chosen.sort != "attention" else found


def counts_of(lines: Sequence[QueryLine]) -> list[tuple[Only, int]]:
    """How many queries there are of each kind, without the kinds that have none."""
    counts = [(only, sum(map(holds, lines))) for only, holds in _ONLY.items()]
    return [(only, count) for only, count in counts if count]


def _is_wanted(line: QueryLine, chosen: Chosen) -> bool:
    query, copies = line.query, line.copies
    if chosen.only is not None and not _ONLY[chosen.only](line):
        return False
    if chosen.cluster is not None and query.cluster != chosen.cluster:
        return False
    way = (copies.source, copies.target) if copies is not None else None
    if chosen.source is not None and way != (chosen.source, chosen.target):
        return False
    texts = [query.query, query.runner or "", *(f"{key}={value}" for key, value in query.labels.items())]
    return any(chosen.find.casefold() in each.casefold() for each in texts)


_ONLY: dict[Only, Callable[[QueryLine], bool]] = {
    "failing": lambda line: line.query.state in {RunState.FAILED, "stuck"} or line.query.error is not None,
    "not-ready": lambda line: line.query.ready is False,
    "away": lambda line: line.query.is_away,
    "moving": lambda line: line.query.operation is not None,
    "waiting": lambda line: line.query.state in {"waiting", "silent", "never-run", "held"},
}
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_ORDERS: dict[Sort, Callable[[QueryLine], tuple[object, ...]]] = {
    "query": lambda line: (line.query.query,),
    "cluster": lambda line: (line.query.cluster or "", line.query.query),
    "state": lambda line: (line.query.state, line.query.query),
    "progress": lambda line: (line.query.progressed_at or _LONG_AGO, line.query.query),
    "lag": lambda line: (*_largest(line.query.lag_records), line.query.query),
    "exposure": lambda line: (*_largest(_seconds(line)), line.query.query),
    "copy": lambda line: (*_largest(_age(line)), line.query.query),
}
"""The worst first; what is unknown comes before what is known, because nothing speaks for it."""


def _largest(value: float | None) -> tuple[bool, float]:
    return value is not None, -(value or 0.0)


def _age(line: QueryLine) -> float | None:
    return None if line.copies is None or line.copies.is_missing else line.copies.age_seconds


def _seconds(line: QueryLine) -> float | None:
    """The exposure as it was judged last."""
    number, _, unit = str((line.exposure or {}).get("measured", "")).partition(" ")
    try:
        return float(number) if unit == "s" else None
    except ValueError:
        return None
