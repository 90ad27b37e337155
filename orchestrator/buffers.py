"""The measured buffers of a query's topics, from what the store remembers: for whoever resolves places."""

from collections.abc import Mapping, Sequence

from orchestrator.decide.buffer import Buffer, Measures, buffers_of
from orchestrator.decide.facts import Facts
from state.errors import Damaged
from state.model import Position
from state.ports import Store
from state.upkeep import Replication


def measured_buffers(store: Store, facts: Facts, positions: Sequence[Position]) -> tuple[Buffer, ...]:
    """One for each topic; none where the configuration says a buffer. Raises ``StoreError``."""
    if facts.settings.buffer != "measured":
        return ()
    given = Measures(
        assignment=facts.assignment, disorder=store.disorder(facts.query), positions=positions, now=store.now()
    )
    return buffers_of(sorted(facts.topics or {}), given, target=facts.target, latencies=_latencies(store, facts))


def _latencies(store: Store, facts: Facts) -> Mapping[str, Sequence[int] | None]:
    """Of the topics whose standby stamps records itself: how late it was seen to do so."""
    there = (facts.standby.topics if facts.standby is not None else None) or {}
    described = {topic: there.get(name or "") for topic, name in (facts.topics or {}).items()}
    stamped = [topic for topic, told in described.items() if told and told.timestamp_type == "LogAppendTime"]
    sample = _sample(store, facts.query) if stamped else None
    same = sample is not None and (sample.source, sample.target) == (facts.source, facts.target)
    known = sample.latencies if sample is not None and same else {}
    return {topic: known.get(topic) for topic in stamped}


def _sample(store: Store, query: str) -> Replication | None:
    """A sample that cannot be read is none: it must not keep a query from being moved."""
    try:
        return store.replication(query)
    except Damaged:
        return None
