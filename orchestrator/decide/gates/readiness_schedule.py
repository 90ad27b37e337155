"""Readiness as it is sampled all day long: which queries are next, and what an answer is to be remembered as. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from orchestrator.decide.gates.readiness import Readiness
from state.model.entities import Event, Operation
from state.model.maintenance import ReadinessFact

MOVE_TAKES = timedelta(minutes=2)
"""While an operation is younger than this no sample is taken: a query that is being moved needs the same clusters."""
SAMPLE_EVERY = timedelta(minutes=1)
SAMPLE_LONGEST = timedelta(minutes=4)
"""Below ``SAMPLE_STANDS``, after which a sample says nothing of now."""
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
    """What refuses is looked at each minute, whatever that costs: somebody is waiting for it to change."""
    stands = SAMPLE_EVERY
    if fact.ready:
        stands = min(max(SAMPLE_EVERY, timedelta(seconds=spent / _SHARE)), SAMPLE_LONGEST)
    return not timedelta(0) <= now - fact.sampled_at < stands


def readiness_fact(found: Readiness, now: datetime) -> ReadinessFact:
    """The answer of a check as a row for the store, which keeps the beginning of one that stands."""
    return ReadinessFact(
        query=found.query,
        target=found.target,
        ready=found.ready,
        gates=tuple(gate.as_json() for gate in found.gates),
        since=now,
        sampled_at=now,
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


def sentence(fact: ReadinessFact) -> str:
    """The answer for people, with the first gate that refuses."""
    could = {True: "could fail over", False: "could not fail over", None: "cannot be checked for a failover"}
    refused = [gate for gate in fact.gates if not gate["ok"]]
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    why = f": {refused[0]['name']}: {refused[0]['text']}{more}" if refused else ""
    return f"{fact.query} {could[fact.ready]} to {fact.target}{why}"
