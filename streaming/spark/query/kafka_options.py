"""The options of a Kafka source or sink for one cluster, and how many tasks a runner's sources make.

Spark needs 183 s to notice a dead Kafka with its default options; with those below a query fails within seconds and a
stuck task leaves its slot within one. ``kafka.request.timeout.ms`` of 500 would be faster still and less tolerant, 300
kills healthy queries. On a busy host a first start needs longer than one such time-out, for a cold JVM loads its
classes at the same time. So each try stays short, because a fence waits for it, and there are several. Spark gives up
between two tries once the run is stopped (``KafkaOffsetReaderAdmin.withRetries``; a cancelled stage starts no task
again).

What the configuration says wins, but for where a query reads: that changes with the cluster.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession

from state.settings.keys import Cluster, Query, Tideover
from state.settings.topics import all_topics_of, pattern_of, topics_of
from streaming.cluster_log import ClusterLog, TopicFacts
from streaming.errors import KafkaError
from streaming.spark.java_login import java_client_settings
from streaming.spark.query.pipeline import SOURCE_OPTION

_GUESS = 4
"""Partitions of a topic about which no broker answered."""
_ANSWER_SECONDS = 1.0


def count_tasks(settings: Tideover, runner: str, open_log: Callable[[str], ClusterLog]) -> dict[str, int]:
    """By query, how many tasks its sources make: one for each partition, or as many as ``minPartitions`` sets.

    Looks at each cluster once; a source counts as it is on its home, else on the next cluster that answers.
    """
    described: dict[str, Mapping[str, TopicFacts]] = {}
    found: dict[str, int] = {}
    for query_name, query in settings.queries.items():
        if runner not in query.runners:
            continue
        total = 0
        for name in query.sources:
            for cluster in query.clusters:
                if cluster not in described:
                    described[cluster] = _describe(open_log, cluster, _topics(settings, runner, cluster))
                topics = topics_of(settings, query, cluster)[name]
                known = [len(described[cluster][topic].partitions) for topic in topics if topic in described[cluster]]
                if topics and len(known) == len(topics) and all(known):
                    total += max(sum(known), query.sources[name].least_tasks)
                    break
            else:
                total += max(_GUESS * max(1, len(query.sources[name].topics)), query.sources[name].least_tasks)
        found[query_name] = total
    return found


def _topics(settings: Tideover, runner: str, cluster: str) -> set[str]:
    return {
        topic
        for query in settings.queries.values()
        if runner in query.runners
        for topic in all_topics_of(settings, query, cluster)
    }


def _describe(open_log: Callable[[str], ClusterLog], cluster: str, topics: set[str]) -> Mapping[str, TopicFacts]:
    try:
        return open_log(cluster).describe(topics, timeout=_ANSWER_SECONDS)
    except KafkaError:
        return {}


Options = Mapping[str, str]

PROMPT = {
    "kafkaConsumer.pollTimeoutMs": "1000",
    "kafka.default.api.timeout.ms": "1500",
    "kafka.request.timeout.ms": "1000",
    "fetchOffset.numRetries": "4",
    "fetchOffset.retryIntervalMs": "100",
}
"""What makes a dead or frozen cluster show within seconds."""

SHORT_WAIT = {"kafka.fetch.max.wait.ms": "25"}
"""Each task requests the log's range after its first poll (``InternalKafkaConsumer.fetch``), on the connection on which
the client has already requested more records. At the end of a log that does not grow, as behind a primary that died,
the broker holds that fetch for Kafka's default of 500 ms. The task waits behind it: 450 ms of a first batch, seen in
thread dumps. Executors fetch in batches only, so a short wait costs few requests."""


_LEAST_BACKOFF_MS, _MOST_BACKOFF_MS, _LONGEST_BACKOFF_MS = 50, 1000, 5000
_CLIENTS = 10


def reconnect_options(cluster: Cluster) -> dict[str, str]:
    """How long a client waits until it connects to the same broker again, where the cluster limits connections.

    Kafka's defaults are 50 ms, and 1 s behind failures in a row. Ten clients that lose one broker together stay below
    the limit with these. They are at most 1 s, which is ``kafka.request.timeout.ms``, and 5 s. A query notices later
    by that wait that its cluster is back.
    """
    if cluster.connections_per_second is None:
        return {}
    spread = round(1000 * _CLIENTS / cluster.connections_per_second)
    return {
        "kafka.reconnect.backoff.ms": str(min(max(spread, _LEAST_BACKOFF_MS), _MOST_BACKOFF_MS)),
        "kafka.reconnect.backoff.max.ms": str(min(max(spread, _MOST_BACKOFF_MS), _LONGEST_BACKOFF_MS)),
    }


def cluster_options(cluster: Cluster) -> dict[str, str]:
    """Bootstrap servers, pauses and security, for reading and for writing, as files and secrets are now.

    Raises ``CredentialRefused`` when one of them cannot be read.
    """
    return {
        "kafka.bootstrap.servers": ",".join(cluster.bootstrap),
        **reconnect_options(cluster),
        **{f"kafka.{key}": value for key, value in java_client_settings(cluster.security).items()},
    }


def source_options(
    settings: Tideover, query: Query, name: str, cluster: str, starting: Mapping[str, Mapping[str, int]] | None
) -> dict[str, str]:
    """All options of one declared source on one cluster.

    ``starting`` is Spark's ``startingOffsets`` JSON of a fresh move; without it the declared ``starting`` holds, which
    Spark looks at on the very first start only.
    """
    source = query.sources[name]
    pattern = pattern_of(settings, query, source, cluster)
    ours = {
        **cluster_options(settings.clusters[cluster]),
        **PROMPT,
        **SHORT_WAIT,
        "kafka.allow.auto.create.topics": "false",
        "failOnDataLoss": "true",
        **(
            {"subscribePattern": pattern}
            if pattern
            else {"subscribe": ",".join(topics_of(settings, query, cluster)[name])}
        ),
        "startingOffsets": source.starting if starting is None else _compact(starting),
        SOURCE_OPTION: name,
    }
    return overridden(ours, source.options)


def overridden(ours: Options, theirs: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """Our options under the user's: Spark's options know no case, so neither does the comparison."""
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in theirs.items()}
    named = {key.lower() for key in texts}
    return {key: value for key, value in ours.items() if key.lower() not in named} | texts


def read_source(session: SparkSession, options: Options, source: str = "kafka") -> DataFrame:
    """The Kafka DataFrame that a pipeline gets, from Spark's own source or from the companion's."""
    return session.readStream.format(source).options(**options).load()


SWITCHING = "tideover.SwitchProvider"
"""The companion's source: Spark's, which continues from a checkpoint that holds another cluster's offsets."""


_REPORTERS = "kafka.metric.reporters"
_SAME_CLUSTER = "tideover.SameCluster"


def switching_options(
    cluster: str,
    placed: int,
    patience: timedelta,
    *,
    naming: Mapping[str, Mapping[str, object]] | None = None,
    home_offsets: bool = False,
    catch_up_batch: int | None = None,
) -> dict[str, str]:
    """What it wants to know beside the options of Spark's source (``SwitchProvider.java``).

    ``placed``: the epoch of the move by which the query came there, 0 where its checkpoint began there. ``patience``:
    how long a run waits for a cluster that has answered it before and is silent now. ``naming``: by cluster, where
    topics have another name than at home, as ``home_naming`` says it.
    """
    more = {"tideover.topics": json.dumps(naming)} if naming else {}
    return {
        "tideover.cluster": cluster,
        "tideover.placed": str(placed),
        "tideover.patience.ms": str(round(patience.total_seconds() * 1000)),
        "tideover.home.offsets": str(home_offsets).lower(),
        "tideover.catch.up.batch": str(catch_up_batch or 0),
        **more,
    }


def identified(
    options: Options, cluster: str, known: str | None, others: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The options, with the id that is pinned for the cluster: driver and consumers read from no other one.

    A consumer hears the id of its cluster through a class among its reporters (``SameCluster.java``). ``others``: by
    id, the clusters to which the same endpoint may lead; a run waits there until it is moved.
    """
    if known is None:
        return dict(options)
    named = next((key for key in options if key.lower() == _REPORTERS), _REPORTERS)
    reporters = ",".join(each for each in (options.get(named, ""), _SAME_CLUSTER) if each)
    own = {"tideover.cluster": cluster, "tideover.cluster.id": known}
    if others:
        own["tideover.elsewhere"] = ",".join(f"{known}={name}" for known, name in others.items())
    return {**options, named: reporters, **own, **{f"kafka.{key}": value for key, value in own.items()}}


def _compact(offsets: Mapping[str, Mapping[str, int]]) -> str:
    return json.dumps({topic: dict(partitions) for topic, partitions in offsets.items()}, separators=(",", ":"))
