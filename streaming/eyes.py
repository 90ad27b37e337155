"""Opens eyes on real clusters, for a controller and for runners."""

from collections.abc import Callable, Collection, Mapping

from state.settings import Tideover
from streaming.kafka.chart import Memory
from streaming.kafka.probe import Probe
from streaming.sight import Eye
from streaming.spark.topics import topics_of

OpenEye = Callable[[], Eye]


def eyes_on(settings: Tideover, queries: Collection[str] | None = None) -> Mapping[str, OpenEye]:
    """By cluster, what opens probes of it for the topics that these queries read there; without ``queries``, all.

    A cluster that none of the given queries can run on is left out. The probes of a cluster share what they learn.
    """
    topics: dict[str, set[str]] = {cluster: set() for cluster in settings.clusters} if queries is None else {}
    for name in settings.queries if queries is None else queries:
        for cluster in settings.queries[name].clusters:
            named = topics_of(settings, settings.queries[name], cluster).values()
            topics.setdefault(cluster, set()).update(topic for source in named for topic in source)
    return {cluster: _opening(settings, cluster, topics[cluster]) for cluster in sorted(topics)}


def _opening(settings: Tideover, cluster: str, topics: Collection[str]) -> OpenEye:
    memory = Memory()
    return lambda: Probe(settings.clusters[cluster], name=cluster, topics=topics, memory=memory)
