"""Readiness over time: which queries are due for a check, and what is kept, plotted and reported of one. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from orchestrator.decide.gates.readiness import Readiness
from state.model.entities import Event, Operation
from state.model.maintenance import ReadinessFact, StandbySample

MOVE_TAKES = timedelta(minutes=2)
"""While an operation is younger than this no sample is taken: a query that is being moved needs the same clusters."""
SAMPLE_EVERY = timedelta(minutes=1)
SAMPLE_LONGEST = timedelta(minutes=4)
"""Below ``SAMPLE_VALID``, after which a sample says nothing of now."""
_SHARE = 0.005
"""Of one core, for the samples of a query that is ready: 3,500 partitions on two clusters take half a second."""


def next_samples(
    queries: Collection[str],
    facts: Iterable[ReadinessFact],
    under_way: Sequence[Operation],
    now: datetime,
    spent: Mapping[str, float],
) -> tuple[str, ...]:
    """The queries to look at now: those never looked at, then those whose sample is old, the oldest first.

    ``spent`` is by query what its last sample took, in seconds of a core. A query with an open operation is passed
    over, and while an operation is young all of them are. A sample from a time to come was taken before a clock was set
    back, and is old.
    """
    if any(abs(now - operation.started_at) < MOVE_TAKES for operation in under_way):
        return ()
    sampled = {fact.query: fact for fact in facts}
    moving = {operation.query for operation in under_way}
    never = [query for query in queries if query not in sampled and query not in moving]
    standing = sorted(set(queries) & sampled.keys() - moving, key=lambda query: (sampled[query].sampled_at, query))
    due = [query for query in standing if _is_old(sampled[query], now, spent.get(query, 0.0))]
    return (*never, *due)


def _is_old(fact: ReadinessFact, now: datetime, spent: float) -> bool:
    """What refuses is looked at each minute, whatever that costs: a person may be waiting for it to change."""
    valid_for = SAMPLE_EVERY
    if fact.ready:
        valid_for = min(max(SAMPLE_EVERY, timedelta(seconds=spent / _SHARE)), SAMPLE_LONGEST)
    return not timedelta(0) <= now - fact.sampled_at < valid_for


def readiness_fact(found: Readiness, now: datetime) -> ReadinessFact:
    """The answer of a check as a row for the store, which keeps the beginning of an unchanged one."""
    return ReadinessFact(
        query=found.query,
        target=found.target,
        ready=found.ready,
        gates=tuple(gate.as_json() for gate in found.gates),
        proven=found.proven,
        partitions=found.partitions,
        since=now,
        sampled_at=now,
    )


def standby_sample(found: Readiness, at: datetime) -> StandbySample:
    """The numbers of a check, for the plots."""
    ages = [copy.age_ms for copy in found.replication.copies if copy.age_ms is not None] if found.replication else []
    return StandbySample(
        query=found.query,
        sampled_at=at,
        source=found.source,
        target=found.target,
        ready=found.ready,
        exposure_records=found.exposure_records,
        exposure_seconds=found.exposure_seconds,
        copy_age_seconds=max(ages) / 1000 if ages else None,
    )


def readiness_event(fact: ReadinessFact, *, actor: str) -> Event:
    """The line of history for an answer that has changed."""
    return Event(
        sequence=None,
        at=fact.sampled_at,
        kind="readiness",
        query=fact.query,
        operation=None,
        epoch=None,
        actor=actor,
        text=sentence(fact),
        detail={"target": fact.target, "ready": fact.ready, "gates": [gate for gate in fact.gates if not gate["ok"]]},
    )


def proven_text(found: Readiness | ReadinessFact) -> str | None:
    """Of how many partitions it is proven by the records themselves where the query would continue; None: of none."""
    if found.proven is None or found.partitions is None:
        return None
    return f"exact: {found.proven:,} of {found.partitions:,} resume offsets proven"


COULD = {True: "could fail over", False: "could not fail over", None: "cannot be checked for a failover"}
"""What is said of a query by what its last check found, wherever it is said."""


def sentence(fact: ReadinessFact) -> str:
    """The answer for people, with the first gate that refuses."""
    refused = [gate for gate in fact.gates if not gate["ok"]]
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    why = f": {refused[0]['name']}: {refused[0]['text']}{more}" if refused else ""
    return f"{fact.query} {COULD[fact.ready]} to {fact.target}{why}"
