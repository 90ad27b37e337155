"""How many partitions a runner's queries read together: what the task slots of ``local[*]`` are measured by."""

from collections.abc import Callable, Mapping

from state.settings import Tideover
from streaming.errors import KafkaError
from streaming.log import Log, TopicFacts
from streaming.spark.topics import topics_of

_GUESS = 4
"""Partitions of a topic that nobody could be asked about."""
_ASK_SECONDS = 1.0


def count_partitions(settings: Tideover, runner: str, open_log: Callable[[str], Log]) -> int:
    """Ask each cluster once; a source counts as it is on its home, else on the next cluster that answers."""
    asked: dict[str, Mapping[str, TopicFacts]] = {}
    total = 0
    for query in settings.queries.values():
        if runner not in query.runners:
            continue
        for name in query.sources:
            for cluster in query.clusters:
                if cluster not in asked:
                    asked[cluster] = _describe(open_log, cluster, _topics(settings, runner, cluster))
                topics = topics_of(settings, query, cluster)[name]
                known = [len(asked[cluster][topic].partitions) for topic in topics if topic in asked[cluster]]
                if topics and len(known) == len(topics) and all(known):
                    total += sum(known)
                    break
            else:
                total += _GUESS * max(1, len(query.sources[name].topics))
    return total


def _topics(settings: Tideover, runner: str, cluster: str) -> set[str]:
    return {
        topic
        for query in settings.queries.values()
        if runner in query.runners
        for topics in topics_of(settings, query, cluster).values()
        for topic in topics
    }


def _describe(open_log: Callable[[str], Log], cluster: str, topics: set[str]) -> Mapping[str, TopicFacts]:
    try:
        return open_log(cluster).describe(topics, timeout=_ASK_SECONDS)
    except KafkaError:
        return {}
