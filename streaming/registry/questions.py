"""Reads the schema ids of the newest records on both sides, and looks up in both registries what they mean."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime

from state.model.entities import TopicPartition
from state.settings.keys import Tideover
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Entry, Logs, Spec
from streaming.errors import KafkaError, RegistryUnreachable
from streaming.registry.client import RegistryClient
from streaming.registry.wire import Registered, Schema, SchemaAnswers, SchemaFinding, compare, ids_of

VALID_SECONDS = 60.0
"""How long the findings about a query's topics are remembered."""
_LOOK_SECONDS = 3.0
_PARTITIONS = 4
_RECORDS = 8
_BYTES = 65_536
_MOST_BYTES = 1_048_576
_MOST_IDS = 20


class SchemaQuestions:
    """For one process; from any thread."""

    def __init__(self, settings: Tideover, logs: Logs, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._logs = logs
        self._monotonic = monotonic
        self._clients = {
            name: RegistryClient(cluster.schema_registry)
            for name, cluster in settings.clusters.items()
            if cluster.schema_registry is not None
        }
        self._known: dict[tuple[object, ...], tuple[float, SchemaAnswers]] = {}
        self._lock = threading.Lock()

    def of(self, source: str, target: str, topics: Mapping[str, str], now: Callable[[], datetime]) -> SchemaAnswers:
        """What the ids in these topics mean on both clusters; ``topics`` has their names by those on ``source``."""
        key = (source, target, *sorted(topics.items()))
        with self._lock:
            looked_up_at, answers = self._known.get(key, (0.0, None))
        if answers is not None and self._monotonic() - looked_up_at < VALID_SECONDS:
            return answers
        answers = self._answers(source, target, topics, now())
        with self._lock:
            self._known[key] = self._monotonic(), answers
        return answers

    def _answers(self, source: str, target: str, topics: Mapping[str, str], at: datetime) -> SchemaAnswers:
        route, deadline = self._settings.route(source, target), Deadline.after(_LOOK_SECONDS)
        rewrites = route is not None and route.rewrites_schema_ids
        findings: list[SchemaFinding] = []
        try:
            here = _newest(self._logs(source), list(topics), deadline)
            there = _newest(self._logs(target), list(topics.values()), deadline)
        except KafkaError as error:
            return SchemaAnswers(at=at, findings=(), error=str(error))
        for topic, copy in sorted(topics.items()):
            for part in ("key", "value"):
                mine = ids_of(getattr(entry, part) for entry in here.get(topic, ()))
                theirs = ids_of(getattr(entry, part) for entry in there.get(copy, ()))
                both = mine | theirs
                found = compare(
                    topic, part, self._registered(source, mine, both, deadline),
                    self._registered(target, theirs, both, deadline), rewrites=rewrites,
                )  # fmt: skip
                if found is not None:
                    findings.append(found)
        return SchemaAnswers(at=at, findings=tuple(findings))

    def _registered(self, cluster: str, ids: frozenset[int], wanted: frozenset[int], deadline: Deadline) -> Registered:
        client = self._clients.get(cluster)
        schemas: dict[int, Schema | None] = {}
        error = ""
        try:
            for each in sorted(wanted)[:_MOST_IDS] if client is not None else ():
                schemas[each] = client.schema(each, timeout=max(0.1, deadline.remaining)) if client else None
        except RegistryUnreachable as unreachable:
            error = str(unreachable)
        address = None if client is None else client.address
        return Registered(cluster=cluster, ids=ids, registry=address, schemas=schemas, error=error)


def _newest(log: ClusterLog, topics: list[str], deadline: Deadline) -> dict[str, list[Entry]]:
    """The newest records of each topic, from some of its partitions. Raises ``KafkaError``."""
    described = log.describe(topics, timeout=deadline.remaining)
    partitions = [
        TopicPartition(name, number)
        for name, topic in described.items()
        for number in list(topic.partitions)[:_PARTITIONS]
    ]
    if not partitions:
        return {}
    ends = log.offsets(dict.fromkeys(partitions, int(Spec.LATEST)), timeout=deadline.remaining)
    begins = log.offsets(dict.fromkeys(partitions, int(Spec.EARLIEST)), timeout=deadline.remaining)
    found: dict[str, list[Entry]] = {}
    for each in partitions:
        end, begin = ends[each].offset, begins[each].offset
        if end is None or begin is None or end <= begin:
            continue
        start = max(begin, end - _RECORDS)
        entries = log.entries(each, (start, _BYTES), timeout=deadline.remaining)
        if entries.needs_bytes and entries.needs_bytes <= _MOST_BYTES:
            entries = log.entries(each, (start, entries.needs_bytes), timeout=deadline.remaining)
        found.setdefault(each.topic, []).extend(entries.records)
    return found
