"""Keeping the evidence of operations that have closed, by whoever leads; and reading its chain.

An operation closes in one write, and its evidence follows in another: a process that dies between the two leaves it to
the next turn of housekeeping, or to the next leader. The store writes it once, whoever comes twice.
"""

import os
import platform
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from orchestrator.decide.evidence.document import MOST_HISTORY, Facts, document
from orchestrator.decide.evidence.page import page
from orchestrator.decide.outcome import is_read_back
from orchestrator.errors import NotLeading
from orchestrator.facts.gather import Logs
from orchestrator.facts.measure import LONGEST, with_later, with_outcome
from state.errors import StoreError
from state.model.entities import Operation
from state.model.evidence import KEPT, Chain, Evidence, Flaw
from state.store.controller_store import ControllerStore
from streaming.errors import KafkaError

AT_ONCE = 20
"""Documents that one turn writes at most; the next one comes soon."""
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
    for operation in store.without_evidence(limit=AT_ONCE):
        try:
            kept += keep_evidence_of(
                operation, store, logs, term=term, actor=actor, silent=silent, patience=patience
            )  # fmt: skip
        except (StoreError, NotLeading):
            raise
        except Exception as error:  # noqa: BLE001 - whatever one row is about, the others get their evidence
            wrong.append(error)
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

    ``silent`` clusters are not asked, and are found out here.
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
    announced = store.history(kind=KEPT, limit=MOST_ANNOUNCED)  # first: what is kept meanwhile is in the chain then
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
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("x", encoding="utf-8") as file:
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
