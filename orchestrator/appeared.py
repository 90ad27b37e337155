"""Topics that a pattern finds on the standby and that the query has not read: made during the outage, or only there.

Spark reads whatever matches its pattern. A checkpoint that does not name such a topic lets it begin at offset 0, which
fails where retention has worked; and starting offsets that do not name all that matches are refused. So every
partition of them gets a place like any other: nothing was read of it, so it begins at the standby's begin.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from state.model import EndSample, TopicPartition
from state.settings import Query, Tideover
from streaming.log import Log
from streaming.resume.model import Want
from streaming.spark.topics import pattern_of, renaming

TIMEOUT_SECONDS = 2.0


def has_patterns(query: Query) -> bool:
    """Whether any source of a query subscribes by a pattern."""
    return any(source.pattern is not None for source in query.sources.values())


def appeared(
    log: Log, settings: Tideover, query: Query, *, source: str, target: str, wants: Sequence[Want]
) -> tuple[Want, ...]:
    """One want for each partition of the topics that match on ``target`` and that no want of their source names.

    ``source`` is the cluster that is left; its name for such a topic stands in the want.

    Raises ``KafkaError`` when the cluster cannot be asked.
    """
    names = log.names(timeout=TIMEOUT_SECONDS)
    found = list(_matching(settings, query, target, names=sorted(names), wants=wants))
    described = log.describe(sorted({topic for _, topic in found}), timeout=TIMEOUT_SECONDS) if found else {}
    there = renaming(settings, target, source)
    return tuple(
        Want(
            source=name,
            topic=there(topic),
            partition=partition,
            target_topic=topic,
            offset=0,
            ring=(),
            ring_offset=None,
            dense=None,
            begin_known=0,
            timestamp_ms=None,
        )
        for name, topic in found
        for partition in sorted(described[topic].partitions)
    )


def _matching(
    settings: Tideover, query: Query, target: str, *, names: Sequence[str], wants: Sequence[Want]
) -> Iterator[tuple[str, str]]:
    for name, source in query.sources.items():
        pattern = pattern_of(settings, query, source, target)
        if pattern is None:
            continue
        known = {want.target_topic for want in wants if want.source == name}
        yield from ((name, topic) for topic in names if topic not in known and re.fullmatch(pattern, topic))


def unseen(wants: Sequence[Want], cluster: str, now: datetime) -> Mapping[TopicPartition, EndSample]:
    """Samples of partitions that the old cluster was never seen to have: they lack nothing there."""
    return {
        TopicPartition(want.topic, want.partition): EndSample(
            cluster=cluster,
            topic=want.topic,
            partition=want.partition,
            begin=0,
            end=0,
            newest_timestamp_ms=None,
            leader_epoch=None,
            topic_id=None,
            sampled_at=now,
        )
        for want in wants
    }
