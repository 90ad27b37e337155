"""Asking the cluster that a query leaves, as far as it can still be asked."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from orchestrator.decide.facts import Facts
from orchestrator.decide.truncation import sampled_standings
from state.model import EndSample, OperationKind, Position, TopicPartition
from streaming.errors import KafkaError
from streaming.log import Log
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
