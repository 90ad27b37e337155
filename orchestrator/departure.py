"""Asking the cluster that a query leaves, as far as it can still be asked."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from orchestrator.decide.facts import Facts, Reset
from orchestrator.decide.truncation import sampled_standings
from orchestrator.decide.wants import newest_of
from state.model import EndSample, OperationKind, Position, TopicPartition
from state.ring import LIMIT
from streaming.errors import KafkaError
from streaming.kafka.tail import read_tails
from streaming.log import Log
from streaming.resume.reset import Goto
from streaming.resume.truncation import Standing
from streaming.validation import validate

DESCRIBE_SECONDS = 2.0
LEFT_SECONDS = 0.5
"""How long a cluster that is being left in a failover may take to tell whether its log was cut."""
JUST_NOW = timedelta(seconds=2)
"""Ends sampled so lately say that a cluster answers."""


def standings_of(
    log: Log, facts: Facts, positions: Sequence[Position], ends: Mapping[TopicPartition, EndSample], now: datetime
) -> tuple[Standing, ...] | None:
    """What became of the positions in the log that they were read from; None where nothing tells.

    A failover leaves a cluster that is gone as a rule, and nobody waits for it: it is asked only for a person who moves
    away from one that answered a moment ago. Else what was last sampled of it must do.
    """
    seen = max((sample.sampled_at for sample in ends.values()), default=None)
    answered = seen is not None and now - seen < JUST_NOW
    planned = facts.kind is not OperationKind.FAILOVER
    if positions and (planned or (facts.attended and answered)):
        with suppress(KafkaError):
            return validate(log, positions, timeout=DESCRIBE_SECONDS if planned else LEFT_SECONDS)
    return sampled_standings(positions, ends)


def common_history(log: Log, positions: Sequence[Position], resets: Iterable[Reset]) -> list[Position]:
    """Positions at the offsets of divergence, with the records before them as the cut log still holds them.

    Up to there both histories are one, and a reader that had come further may remember nothing of it. Empty where the
    cluster does not tell; then what was remembered must do.
    """
    back = {
        (reset.source, reset.partition): reset.divergence
        for reset in resets
        if reset.goto is Goto.DIVERGENCE and reset.divergence
    }
    rows = [row for row in newest_of(positions) if (row.source, TopicPartition(row.topic, row.partition)) in back]
    ends = {key: divergence for (_, key), divergence in back.items()}
    try:
        tails = read_tails(log, ends, count=LIMIT, timeout=DESCRIBE_SECONDS) if rows else {}
    except KafkaError:
        return []
    found = []
    for row in rows:
        key = TopicPartition(row.topic, row.partition)
        tail, divergence = tails[key], back[row.source, key]
        if tail.error is None and tail.records and divergence == ends[key]:
            newest_ms = max(record.timestamp_ms for record in tail.records)
            found.append(replace(row, offset=divergence, ring=tail.records, timestamp_ms=newest_ms, dense=None))
    return found
