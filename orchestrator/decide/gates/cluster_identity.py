"""Whether the names of a move lead to the clusters that have them. Pure."""

from collections.abc import Iterable
from datetime import datetime

from orchestrator.decide.gates.gate import Gate, answer
from orchestrator.decide.move_facts import MoveFacts, NamedCluster
from orchestrator.decide.verdict import stale_after
from state.model.cluster_status import ProbeReport
from state.model.pins import Pin, strange
from state.settings.keys import Detection


def named_cluster(
    cluster: str,
    configured: str | None,
    pins: Iterable[Pin],
    probe_reports: Iterable[ProbeReport],
    now: datetime,
    detection: Detection,
) -> NamedCluster:
    """Who has a name, and who answered the newest looks under it; looks of long ago say nothing of now."""
    limit = stale_after(detection)
    fresh = [each for each in probe_reports if each.cluster == cluster and abs(now - each.seen_at) <= limit]
    return NamedCluster(
        cluster=cluster,
        configured=configured,
        pin=next((pin for pin in pins if pin.cluster == cluster), None),
        seen={each.viewpoint: each.cluster_id for each in fresh if each.cluster_id is not None},
    )


def cluster_identity(facts: MoveFacts) -> Gate | None:
    """No consent takes this upon itself: what was read would be looked for in records that are others.

    A cluster that nobody sees, as one that is left because it died, is no other one.
    """
    if facts.names is None:
        return None
    clusters = [_with_answer(each, facts) for each in facts.names]
    wrong = dict.fromkeys(
        f"{text} (seen by {who})"
        for each in clusters
        for who, seen in each.seen.items()
        if (text := strange(each.cluster, seen, each.configured, each.pin)) is not None
    )
    return answer(
        "cluster-identity",
        not wrong,
        "; ".join(f"{each.cluster} {' and '.join(sorted(set(each.seen.values()))) or 'not seen'}" for each in clusters),
        "; ".join(f"{each.cluster} {each.expected or 'any'}" for each in clusters),
        _good(facts),
        "; ".join(wrong),
    )


def _with_answer(known: NamedCluster, facts: MoveFacts) -> NamedCluster:
    """With the target's own answer to this very question."""
    seen = facts.standby.stranger if facts.standby is not None and known.cluster == facts.target else None
    return known if seen is None else known.answered_by("this process", seen)


def _good(facts: MoveFacts) -> str:
    if facts.left is not None:
        return f"{facts.query} last ran on the former {facts.source}, cluster {facts.left.id}, which was replaced"
    return f"{facts.source} and {facts.target} have the expected cluster ids"
