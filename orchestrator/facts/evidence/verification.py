"""Checks the claims of a document: against the store, and by what the brokers still hold."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.decide.evidence.claims import Claim, Placed, left, of_document, of_exposure, placed, read, strangers
from orchestrator.decide.evidence.placement_claims import Seen, of_partition, range_of
from orchestrator.decide.evidence.rows import of_rows, of_sink
from orchestrator.decide.move.forecast import MOST_FOLLOWED
from orchestrator.decide.move.left_behind import Exposed
from orchestrator.decide.move_facts import is_planned
from orchestrator.facts.exposed import count_exposed
from orchestrator.facts.measure import rows_now
from state.model.entities import OperationKind, TopicPartition
from state.model.evidence import Evidence
from state.model.measured import Measured
from state.model.plan import StandbyPartition
from state.store.controller_store import ControllerStore
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Logs, OffsetAnswer, Spec
from streaming.errors import KafkaError
from streaming.resolve.as_seen import Reader, Wanted, ends_as_seen, read_as_seen
from streaming.resolve.batched_lookups import request_offsets

PARTITIONS_AT_ONCE = 100
"""Partitions that are read together."""
READ_SECONDS = 10.0
"""How long each such part of the partitions may take."""

Report = Callable[[str], None]


def verify(kept: Evidence, store: ControllerStore, logs: Logs, report: Report) -> list[Claim]:
    """Every claim of a document, checked as far as the clusters answer. Raises ``StoreError``."""
    claims = of_document(kept, store.evidence_after(max(0, kept.sequence - 2), limit=3))
    document = read(kept)
    if document is None:
        return claims
    operation = store.operation(kept.operation)
    rows = rows_now(operation, store) if operation is not None else document.get("rows")
    claims += of_rows(rows) if rows is not None and document["moved"] else []
    claims += [of_sink(Measured.of(document["measured"]).sink_took)] if document["moved"] else []
    return claims + verify_places(document, strangers(document, store.pins()), logs, report)


def verify_places(
    document: Mapping[str, Any], other_clusters: Mapping[str, str], logs: Logs, report: Report
) -> list[Claim]:
    """The claims of each partition that a move placed; ``other_clusters`` by name: why not to read them.

    What they are checked by is read from the brokers: a bounded part of each partition's log.
    """
    partitions, operation = placed(document), document["operation"]
    found: list[Claim] = []
    done = 0
    for part in _parts(partitions):
        report(f"reading {operation['to']}: {done} of {len(partitions)} partitions")
        seen = _seen(operation["to"], part, other_clusters, logs)
        found += [claim for one in part for claim in of_partition(one, seen[one.key])]
        done += len(part)
    if partitions and operation["from"] != operation["to"]:
        report(f"reading {operation['from']}: what {operation['to']} did not have")
    return found + _exposures(document, partitions, other_clusters, logs)


def _parts(partitions: Iterable[Placed]) -> Iterator[list[Placed]]:
    """A few at a time, and no partition of a cluster twice, although two sources may read it."""
    part: list[Placed] = []
    for one in partitions:
        taken = {(each.key.topic, each.key.partition) for each in part}
        if len(part) == PARTITIONS_AT_ONCE or (one.key.topic, one.key.partition) in taken:
            yield part
            part = []
        part.append(one)
    if part:
        yield part


def _seen(
    cluster: str, part: Sequence[Placed], other_clusters: Mapping[str, str], logs: Logs
) -> dict[tuple[str, str, int], Seen]:
    if cluster in other_clusters:
        return {one.key: Seen(error=other_clusters[cluster]) for one in part}
    try:
        return _read(logs(cluster), part)
    except KafkaError as error:
        return {one.key: Seen(error=f"{cluster} does not answer: {error}") for one in part}


def _read(log: ClusterLog, part: Sequence[Placed]) -> dict[tuple[str, str, int], Seen]:
    deadline = Deadline.after(READ_SECONDS)
    wanted = [one for one in part if one.row.target_offset is not None]
    keys = {one.key: TopicPartition(one.key.topic, one.key.partition) for one in wanted}
    facts = log.describe(sorted({key.topic for key in keys.values()}), timeout=deadline.remaining)
    compacted = {name for name, each in facts.items() if "compact" in (each.cleanup_policy or "")}
    begins = request_offsets(log, [(key, Spec.EARLIEST) for key in keys.values()], deadline)
    readers = {one.key: Reader(keys[one.key], one.followed is not None and one.followed.committed) for one in wanted}
    ends = ends_as_seen(log, readers, deadline)
    found: dict[tuple[str, str, int], Seen] = {one.key: Seen() for one in part}
    ranges: dict[tuple[str, str, int], Wanted] = {}
    for one in wanted:
        key = keys[one.key]
        begin, end = begins[key, Spec.EARLIEST], ends[one.key]
        if key.topic in compacted:
            found[one.key] = Seen(error=f"{key.topic} is compacted: records around the resume offset may have gone")
        elif begin.offset is None or end.stable is None or end.last is None:
            found[one.key] = Seen(error=_why(begin))
        else:
            ranges[one.key] = Wanted(readers[one.key], *range_of(one, begin.offset, end.stable))
            found[one.key] = Seen(begin=begin.offset, end=end.last)
    records = read_as_seen(log, ranges, limit=2 * MOST_FOLLOWED, deadline=deadline)
    for name, (_, first, last) in ranges.items():
        known = found[name]
        found[name] = Seen(begin=known.begin, end=known.end, first=first, last=last, records=records[name])
    return found


def _why(*answers: OffsetAnswer) -> str:
    error = next((each.error for each in answers if each.error is not None), None)
    return f"{error.name}: {error.text}" if error is not None else "its leader does not say what the log holds"


def _exposures(
    document: Mapping[str, Any], partitions: Sequence[Placed], other_clusters: Mapping[str, str], logs: Logs
) -> list[Claim]:
    source, target = document["operation"]["from"], document["operation"]["to"]
    kind, consents = document["operation"]["kind"], document["who"].get("consents", ())
    if source == target or is_planned(OperationKind(kind), consents):  # it left nothing behind
        return []
    asked_at_ms, behind = left(document)
    why = next((other_clusters[name] for name in (source, target) if name in other_clusters), "")
    counted: Mapping[StandbyPartition, Exposed] = {}
    if not why and behind:
        try:
            counted = count_exposed(logs(source), logs(target), behind, asked_at_ms)
            why = f"{source} and {target} hold too little of what they held then, or its records look the same"
        except KafkaError as error:
            why = f"{source} does not answer: {error}"
    followed = {each.key for each in behind}
    return [
        of_exposure(
            one,
            counted.get(one.key, Exposed()).records,
            why if one.key in followed else "no fingerprints of the last consumed records were kept",
            counted.get(one.key, Exposed()),
        )
        for one in partitions
    ]
