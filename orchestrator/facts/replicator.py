"""What a planned move needs to know beside a failover: that the active cluster answers, and that its replicator runs.

A heartbeat is written to the source and copied like any record (MirrorMaker 2, KIP-382), so the newest one on the
standby tells when the replicator copied last. Records are no proof: a producer may write to the standby, too.
"""

from datetime import UTC, datetime

from orchestrator.clock import Clock
from orchestrator.decide.gates.gate import UNKNOWN
from orchestrator.decide.move_facts import MoveFacts, Replicating, StandbyAnswer
from state.model.entities import TopicPartition
from streaming.cluster_log import ClusterLog, Spec
from streaming.errors import KafkaError

ASK_SECONDS = 2.0
COPIED_WITHIN_SECONDS = 30.0
"""How old the newest copy may be. MirrorMaker 2 sends a heartbeat each second, and may wait for a full batch."""


def ask_active(log: ClusterLog, facts: MoveFacts, clock: Clock) -> StandbyAnswer:
    """One bounded question to the cluster that the query is to leave."""
    started = clock.monotonic()
    try:
        log.describe(sorted(facts.topics or {}), timeout=ASK_SECONDS)
    except KafkaError as error:
        spent = clock.monotonic() - started
        return StandbyAnswer(reachable=False, seconds=spent, limit_seconds=ASK_SECONDS, error=str(error))
    return StandbyAnswer(reachable=True, seconds=clock.monotonic() - started, limit_seconds=ASK_SECONDS)


def ask_replicator(log: ClusterLog, facts: MoveFacts, now: datetime) -> Replicating:
    """What the newest heartbeat on the standby says of the replicator. ``now`` is the store's time."""
    heartbeats = facts.route.heartbeats if facts.route is not None else None
    if heartbeats is None:
        text = f"the route from {facts.source} to {facts.target} declares no heartbeats: nothing proves that it copies"
        return Replicating(proven=False, measured="no heartbeats declared", text=text)
    where = f"{heartbeats} on {facts.target}"
    try:
        partitions = log.describe([heartbeats], timeout=ASK_SECONDS)[heartbeats].partitions
        times = {TopicPartition(heartbeats, number): int(Spec.MAX_TIMESTAMP) for number in partitions}
        looked = log.offsets(times, timeout=ASK_SECONDS)
    except KafkaError as error:
        return Replicating(proven=False, measured=UNKNOWN, text=f"{where} cannot be read: {error}")
    newest_ms = max((each.timestamp_ms for each in looked.values() if each.timestamp_ms is not None), default=None)
    if newest_ms is None:
        failed = next((each.error for each in looked.values() if each.error is not None), None)
        why = f": {failed.name}" if failed is not None else ""
        return Replicating(proven=False, measured="none", text=f"{where} holds no heartbeat of {facts.source}{why}")
    age = max(0.0, (now - datetime.fromtimestamp(newest_ms / 1000, UTC)).total_seconds())
    proven = age <= COPIED_WITHIN_SECONDS
    limit = "" if proven else f", the limit is {COPIED_WITHIN_SECONDS:.0f} s"
    text = f"the newest heartbeat copied from {facts.source} is {age:.0f} s old{limit}"
    return Replicating(proven=proven, measured=f"{age:.0f} s", text=text)
