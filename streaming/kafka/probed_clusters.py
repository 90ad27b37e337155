"""Which clusters a process probes, and for which topics: those that its queries may run on or write to."""

from collections.abc import Callable, Collection, Mapping

from state.settings.keys import Tideover
from state.settings.topics import all_topics_of
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.probe import Probe
from streaming.kafka.security import login_of
from streaming.probe.identities import Identities
from streaming.probe.probe_result import ClusterProbe

OpenProbe = Callable[[], ClusterProbe]


def probes_on(
    settings: Tideover, identities: Identities, queries: Collection[str] | None = None
) -> Mapping[str, OpenProbe]:
    """By cluster, what opens probes of it for the topics that these queries read there; without ``queries``, all.

    A cluster that none of the given queries can run on or writes to is left out. The probes of a cluster share what
    they learn.
    """
    topics: dict[str, set[str]] = {cluster: set() for cluster in settings.clusters} if queries is None else {}
    for name in settings.queries if queries is None else queries:
        for cluster in settings.queries[name].clusters:
            topics.setdefault(cluster, set()).update(all_topics_of(settings, settings.queries[name], cluster))
        output = settings.queries[name].output
        if output is not None and output.cluster != "active":
            topics.setdefault(output.cluster, set())
    return {cluster: _opening(settings, identities, cluster, topics[cluster]) for cluster in sorted(topics)}


def _opening(settings: Tideover, identities: Identities, cluster: str, topics: Collection[str]) -> OpenProbe:
    memory, known = ProbeMemory(), settings.clusters[cluster]
    login = login_of(known.security)
    return lambda: Probe(
        known, name=cluster, topics=topics, memory=memory, identify=identities.of(cluster), login=login
    )
