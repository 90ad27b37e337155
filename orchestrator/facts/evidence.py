"""Keeping the evidence of operations that have closed, by the leading controller; reading its chain, and checking its
claims.

An operation closes in one write, and its evidence follows in another. A process that dies between the two leaves it to
the next turn of housekeeping, or to the next leader. The store writes it once, however often it is tried.
"""

import os
import platform
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from orchestrator.decide.evidence.claims import (
    Claim,
    Placed,
    Seen,
    left,
    of_document,
    of_exposure,
    of_partition,
    placed,
    range_of,
    read,
    strangers,
)
from orchestrator.decide.evidence.document import MOST_HISTORY, Facts, document
from orchestrator.decide.evidence.page import page
from orchestrator.decide.evidence.rows import of_rows, of_sink
from orchestrator.decide.move.forecast import MOST_FOLLOWED
from orchestrator.decide.move.left_behind import Exposed
from orchestrator.decide.move.outcome import is_read_back
from orchestrator.decide.move_facts import is_planned
from orchestrator.facts.measure import LONGEST, rows_now, with_later, with_outcome
from orchestrator.facts.tail import count_exposed
from orchestrator.rounds import apart
from state.model.entities import Operation, OperationKind, TopicPartition
from state.model.evidence import KEPT, Chain, Evidence, Flaw
from state.model.measured import Measured
from state.model.plan import StandbyPartition
from state.private_files import make_private_folder, private_writer
from state.store.controller_store import ControllerStore
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Logs, OffsetAnswer, Spec
from streaming.errors import KafkaError
from streaming.resolve.as_seen import Reader, Wanted, ends_as_seen, read_as_seen
from streaming.resolve.batched_lookups import ask_offsets

DOCUMENTS_AT_ONCE = 20
"""Documents that one turn writes at most; the next one comes soon."""
LOOKED_AT_ONCE = 60
"""Operations that one turn looks at: those whose query has not read enough yet keep none behind them waiting."""
MEASURED_WITHIN = timedelta(seconds=30)
"""How long the evidence of a finished move waits for the query to read what the standby held: then its replay can be
counted."""
LINKS_AT_ONCE = 10
MOST_ANNOUNCED = 1_000_000

Term = Callable[[], int | None]
"""The term in which this process leads; None while it does not."""


def keep_evidence(
    store: ControllerStore, logs: Logs, *, term: Term, actor: str, patience: timedelta = MEASURED_WITHIN
) -> int:
    """Write the evidence of operations that closed without; of how many. Raises ``StoreError``.

    What goes wrong with one operation is raised when the others have theirs.
    """
    kept, silent, wrong = 0, set[str](), list[Exception]()
    for operation in store.without_evidence(limit=LOOKED_AT_ONCE):
        if kept == DOCUMENTS_AT_ONCE:
            break
        with apart(wrong):
            kept += keep_evidence_of(
                operation, store, logs, term=term, actor=actor, silent=silent, patience=patience
            )  # fmt: skip
    if wrong:
        raise wrong[0]
    return kept


def keep_evidence_of(
    operation: Operation,
    store: ControllerStore,
    logs: Logs,
    *,
    term: Term,
    actor: str,
    silent: set[str],
    patience: timedelta,
) -> bool:
    """Write the evidence of one closed operation; False where that was not done, or not yet. Raises ``StoreError``.

    ``silent`` clusters get no request, and are found out here.
    """
    age = abs(store.now() - (operation.ended_at or operation.started_at))
    measured = _measured(operation, store, logs, silent) if age < LONGEST else operation
    if age < patience and not is_read_back(measured):
        return False
    facts = document(_facts(measured, store, actor))
    leading = term()
    return leading is not None and store.keep_evidence(operation, facts, term=leading, actor=actor) is not None


def _measured(operation: Operation, store: ControllerStore, logs: Logs, silent: set[str]) -> Operation:
    """With what can be measured now; as it is where a cluster is not declared any more."""
    try:
        return with_outcome(with_later(operation, store, logs), store, logs, silent)
    except KafkaError:
        return operation


def _facts(operation: Operation, store: ControllerStore, actor: str) -> Facts:
    return Facts(
        operation=operation,
        steps=store.steps(operation.id),
        intents=store.intents(operation.id),
        events=store.history(operation=operation.id, limit=MOST_HISTORY + 1),
        pins=store.pins(),
        versions={"schema": store.schema, **versions()},
        at=store.now(),
        actor=actor,
    )


@cache
def versions() -> dict[str, str | None]:
    """What runs here: the controller's own packages, of which a runner may have others."""
    packages = {"tideover": "tideover", "kafka_python": "kafka-python", "pyspark": "pyspark"}
    return {"python": platform.python_version(), **{key: _installed(name) for key, name in packages.items()}}


def _installed(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def links(store: ControllerStore, after: int = 0) -> Iterator[Evidence]:
    """The chain behind a link, a few at a time. Raises ``StoreError``."""
    while found := store.evidence_after(after, limit=LINKS_AT_ONCE):
        yield from found
        after = found[-1].sequence


def check_chain(store: ControllerStore, tell: Callable[[int], None] = lambda links: None) -> tuple[Chain, list[Flaw]]:
    """The chain, read from its first link to its last, and what is wrong with it. Raises ``StoreError``."""
    announced = store.history(kind=KEPT, limit=MOST_ANNOUNCED)  # first: what is kept in between is in the chain then
    chain, after = Chain(), 0
    while found := store.evidence_after(after, limit=LINKS_AT_ONCE):
        chain.add(found)
        after = found[-1].sequence
        tell(chain.links)
    return chain, chain.end(announced)


class Folder:
    """The folder to which a leader writes each document, as JSON and as a page; what is there already stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0
        """The last link whose files are known to be there."""

    def write(self, store: ControllerStore) -> int:
        """Write the documents that are not there yet; how many. Raises ``StoreError`` and ``OSError``."""
        made = 0
        for kept in links(store, self._written):
            if kept.document is not None:
                name = f"{kept.sequence:06d}-{kept.operation}"
                made += write_once(self._path / f"{name}.json", kept.document)
                write_once(self._path / f"{name}.html", page(kept))
            self._written = kept.sequence
        return made


def write_once(path: Path, text: str) -> bool:
    """Make a file whole or not at all; one that is there is not touched. Raises ``OSError``."""
    if path.exists():
        return False
    make_private_folder(path.parent)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with private_writer(draft, is_new=True) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # unlike a rename it fails where the name is taken
        except FileExistsError:
            return False
        return True
    finally:
        draft.unlink(missing_ok=True)


PARTITIONS_AT_ONCE = 100
"""Partitions that are read together."""
READ_SECONDS = 10.0
"""How long each such part of the partitions may take."""

Tell = Callable[[str], None]


def verify(kept: Evidence, store: ControllerStore, logs: Logs, tell: Tell) -> list[Claim]:
    """Every claim of a document, checked as far as the clusters answer. Raises ``StoreError``."""
    claims = of_document(kept, store.evidence_after(max(0, kept.sequence - 2), limit=3))
    document = read(kept)
    if document is None:
        return claims
    operation = store.operation(kept.operation)
    rows = rows_now(operation, store) if operation is not None else document.get("rows")
    claims += of_rows(rows) if rows is not None and document["moved"] else []
    claims += [of_sink(Measured.of(document["measured"]).sink_took)] if document["moved"] else []
    return claims + verify_places(document, strangers(document, store.pins()), logs, tell)


def verify_places(
    document: Mapping[str, Any], other_clusters: Mapping[str, str], logs: Logs, tell: Tell
) -> list[Claim]:
    """The claims of each partition that a move placed; ``other_clusters`` by name: why not to read them.

    What they are checked by is read from the brokers: a bounded part of each partition's log.
    """
    partitions, operation = placed(document), document["operation"]
    found: list[Claim] = []
    done = 0
    for part in _parts(partitions):
        tell(f"reading {operation['to']}: {done} of {len(partitions)} partitions")
        seen = _seen(operation["to"], part, other_clusters, logs)
        found += [claim for one in part for claim in of_partition(one, seen[one.key])]
        done += len(part)
    if partitions and operation["from"] != operation["to"]:
        tell(f"reading {operation['from']}: what {operation['to']} did not have")
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
    begins = ask_offsets(log, [(key, Spec.EARLIEST) for key in keys.values()], deadline)
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
