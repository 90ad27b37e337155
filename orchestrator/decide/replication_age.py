"""How old the standby's copies are: rows of one sample, and the sentence that names the worst of them. Pure.

The age of a copy is how long the oldest record waits that the standby may lack: an upper bound. It is unknown where a
broker does not know its newest record, a standby stamps records itself, a topic has other partitions, or the source is
silent. The row says why. Of a silent source the records themselves may show it, where the query's position was found on
the standby.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from orchestrator.decide.move_facts import MoveFacts
from orchestrator.decide.places import seconds_lacking
from orchestrator.decide.times import instant, iso
from state.model.entities import EndSample, TopicPartition
from state.model.maintenance import LATENCIES, PartitionCopy, ReplicationSample
from state.plain_text import amount
from streaming.cluster_log import TopicFacts
from streaming.resume.age import SILENT, ReplicationAge
from streaming.resume.model import Target

Ends = Mapping[TopicPartition, EndSample]


def partitions_of(facts: MoveFacts, topics: Mapping[str, TopicFacts], ends: Ends) -> tuple[TopicPartition, ...]:
    """The source's partitions of a query: as the source describes them, else as they were last sampled."""
    names = {name for name in facts.topics or {} if facts.route is not None}
    described = {TopicPartition(name, number) for name in names & set(topics) for number in topics[name].partitions}
    described_topics = {key.topic for key in described}
    return tuple(sorted(described | {key for key in ends if key.topic in names - described_topics}))


def counterparts(facts: MoveFacts, keys: Iterable[TopicPartition]) -> dict[TopicPartition, TopicPartition | str]:
    """Of each partition its copy on the standby, or why it has none that could be compared."""
    there = facts.standby.topics if facts.standby is not None and facts.standby.reachable else None
    if there is None:
        why = facts.standby.error if facts.standby is not None else ""
        return dict.fromkeys(keys, f"{facts.target} does not answer{f': {why}' if why else ''}")
    found: dict[TopicPartition, TopicPartition | str] = {}
    wanted = sorted(keys)
    counts = {key.topic: key.partition + 1 for key in wanted}
    for key in wanted:
        name = (facts.topics or {}).get(key.topic)
        topic = there.get(name or "")
        count = len(topic.partitions) if topic is not None else 0
        if name is None:
            found[key] = f"the route to {facts.target} has no such topic"
        elif not count:
            found[key] = f"{facts.target} has no topic {name}"
        elif count < counts[key.topic]:
            there_are = f"{counts[key.topic]} on {facts.source}, {count} on {facts.target}"
            found[key] = f"partition counts differ ({there_are}): lag cannot be compared"
        else:
            found[key] = TopicPartition(name, key.partition)
    return found


def replication_of(
    facts: MoveFacts,
    copies: Mapping[TopicPartition, TopicPartition | str],
    ages: Mapping[TopicPartition, ReplicationAge] | str,
    ends: Ends,
    now: datetime,
    *,
    live: bool,
) -> ReplicationSample:
    """One sample. ``ages`` are as the source reported them now (``live``) or as it was last sampled, or why there are
    none.

    What the source is known to hold is reported even if nothing can be compared with it.
    """
    places = _places(facts)
    rows = []
    for key, copy in copies.items():
        sample = ends.get(key)
        age = None if isinstance(ages, str) else ages.get(key)
        blank = PartitionCopy(
            topic=key.topic,
            partition=key.partition,
            target_topic=(facts.topics or {}).get(key.topic),
            newest_ms=sample.newest_timestamp_ms if sample is not None else None,
            target_newest_ms=None,
            age_ms=None,
            records=None,
            seen_ms=_milliseconds(sample.sampled_at) if sample is not None else None,
            note="",
        )
        if isinstance(copy, str):
            rows.append(blank._replace(note=copy))
        elif age is None:
            why = ages if isinstance(ages, str) else f"{facts.source} does not answer and was never sampled"
            rows.append(blank._replace(note=why))
        else:
            row = blank._replace(seen_ms=_milliseconds(now)) if live else blank
            rows.append(_row(facts, row, age, places.get(key)))
    latencies = {topic: (latency,) for topic, latency in _latencies(facts, rows).items()}
    return ReplicationSample(
        source=facts.source, target=facts.target, sampled_at=now, copies=tuple(rows), latencies=latencies
    )


def continued(sample: ReplicationSample, before: ReplicationSample | None) -> ReplicationSample:
    """The sample, with what earlier ones of the same way have shown of how records and their copies are stamped."""
    same = before is not None and (before.source, before.target) == (sample.source, sample.target)
    stamps = {**(before.stamps if before is not None and same else {}), **sample.stamps}
    kept = dict(before.latencies) if before is not None and same else {}
    for topic, latencies in sample.latencies.items():
        kept[topic] = (*kept.get(topic, ()), *latencies)[-LATENCIES:]
    return replace(sample, latencies=kept, stamps=stamps)


def worst_of(replication: ReplicationSample) -> PartitionCopy | None:
    """The copy to look at first: one that is missing altogether, else the oldest; None where no age is known."""
    missing = [copy for copy in replication.copies if copy.is_missing]
    if missing:
        return max(missing, key=lambda copy: copy.records or 0)
    known = [copy for copy in replication.copies if copy.age_ms is not None]
    return max(known, key=lambda copy: (copy.age_ms or 0, copy.records or 0), default=None)


def replication_text(replication: ReplicationSample, now: datetime) -> str:
    """The sample in one sentence, which names the worst partition and how old the sample is."""
    here, there, worst = replication.source, replication.target, worst_of(replication)
    unknown = [copy for copy in replication.copies if copy.age_ms is None and not copy.is_missing]
    parts = []
    if worst is not None and worst.is_missing:
        parts.append(f"{there} holds no record of {worst.name}, {here} holds {worst.records}")
    elif worst is not None:
        records = "" if worst.records is None else f", {amount(worst.records, 'record')}"
        parts.append(f"{there} is {(worst.age_ms or 0) / 1000:.1f} s behind {here} at most ({worst.name}{records})")
    if unknown:
        first = f"{unknown[0].name}: {unknown[0].note}"
        parts.append(f"the lag of {amount(len(unknown), 'partition')} on {there} is unknown ({first})")
    if not parts:
        parts.append(f"no partition of {here} is known")
    return f"{'; '.join(parts)}; sampled {_ago(replication.sampled_at, now)}{_seen(replication, now)}"


def replication_json(replication: ReplicationSample | None, now: datetime) -> dict[str, object] | None:
    """The sample as ``check`` and ``show`` print it."""
    if replication is None:
        return None
    worst = worst_of(replication)
    return {
        "from": replication.source,
        "to": replication.target,
        "sampled_at": iso(replication.sampled_at),
        "sample_age_seconds": round(max(0.0, (now - replication.sampled_at).total_seconds()), 1),
        "worst": None if worst is None else {"topic": worst.topic, "partition": worst.partition},
        "text": replication_text(replication, now),
        "partitions": replication_rows(replication),
    }


COPY_COLUMNS = (
    "topic", "partition", "timestamp_ms", "standby_timestamp_ms", "age_seconds", "age_records", "note",
)  # fmt: skip
"""Of these rows, as tables show them."""


def replication_rows(replication: ReplicationSample) -> list[dict[str, object]]:
    """One row a partition, in the words of ``offsets --compare``."""
    return [
        {
            "topic": copy.topic,
            "partition": copy.partition,
            "target_topic": copy.target_topic,
            "timestamp_ms": copy.newest_ms,
            "standby_timestamp_ms": copy.target_newest_ms,
            "age_seconds": None if copy.age_ms is None else copy.age_ms / 1000,
            "age_records": copy.records,
            "source_seen_at": instant(copy.seen_ms),
            "note": copy.note,
        }
        for copy in replication.copies
    ]


def _row(facts: MoveFacts, row: PartitionCopy, age: ReplicationAge, content: Target | None) -> PartitionCopy:
    """``content``: the place on the standby, which shows what it lacks of the source as that was last sampled."""
    lacking = None if content is None else content.exposure_records
    lacking_seconds = None if content is None else seconds_lacking(content)
    records = lacking if age.records is None else age.records
    row = row._replace(newest_ms=age.source_ms, target_newest_ms=age.newest_ms, records=records)
    if age.error is not None:
        side = facts.target if age.by_standby else facts.source
        return row._replace(note=f"{side}: {age.error.name}: {age.error.text}")
    if age.seconds is not None and age.source_ms is None:
        return row._replace(age_ms=0, note=f"{facts.source} holds no record of this partition")
    if age.newest_ms is None and age.records:
        return row._replace(note=f"{facts.target} holds no record of this partition")
    if _stamps_itself(facts, row.target_topic):
        why = f"{facts.target} uses LogAppendTime: timestamps cannot be compared"
        return row._replace(records=lacking, note=why)
    if age.note:
        known = lacking_seconds if age.note == SILENT else None
        return row._replace(note=age.note) if known is None else row._replace(age_ms=round(known * 1000))
    if age.seconds is None:
        side = facts.source if age.source_ms is None else facts.target
        return row._replace(note=f"{side} did not return its largest timestamp")
    return row._replace(age_ms=round(age.seconds * 1000))


def _stamps_itself(facts: MoveFacts, name: str | None) -> bool:
    topics = facts.standby.topics if facts.standby is not None else None
    topic = (topics or {}).get(name or "")
    return topic is not None and topic.timestamp_type == "LogAppendTime"


def _places(facts: MoveFacts) -> dict[TopicPartition, Target]:
    targets = facts.resumes_at.targets if facts.resumes_at is not None else ()
    return {TopicPartition(each.topic, each.partition): each for each in targets}


def _latencies(facts: MoveFacts, copies: Iterable[PartitionCopy]) -> dict[str, int]:
    """The smallest of each topic whose standby stamps records itself, from copies that lack nothing."""
    found: dict[str, int] = {}
    for copy in copies:
        times = copy.newest_ms, copy.target_newest_ms
        if copy.records == 0 and None not in times and _stamps_itself(facts, copy.target_topic):
            latency = (times[1] or 0) - (times[0] or 0)
            found[copy.topic] = min(latency, found.get(copy.topic, latency))
    return found


def _seen(replication: ReplicationSample, now: datetime) -> str:
    """How long ago the source was looked at, where that was before the standby was."""
    seen = min((copy.seen_ms for copy in replication.copies if copy.seen_ms is not None), default=None)
    if seen is None or seen >= _milliseconds(replication.sampled_at):
        return ""
    return f", {replication.source} last seen {_ago(datetime.fromtimestamp(seen / 1000, UTC), now)}"


def _ago(then: datetime, now: datetime) -> str:
    return f"{max(0.0, (now - then).total_seconds()):.0f} s ago"


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
