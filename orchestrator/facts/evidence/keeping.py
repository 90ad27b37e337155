"""Keeps the evidence of operations that have closed; called by the leading controller.

An operation closes in one write, and its evidence follows in another. A process that dies between the two leaves it to
the next turn of housekeeping, or to the next leader. The store writes it once, however often it is tried.
"""

import platform
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from orchestrator.decide.evidence.document import MOST_HISTORY, Facts, document
from orchestrator.decide.move.outcome import is_read_back
from orchestrator.facts.measure import LONGEST, with_later, with_outcome
from orchestrator.rounds import apart
from state.model.entities import Operation
from state.store.controller_store import ControllerStore
from streaming.cluster_log import Logs
from streaming.errors import KafkaError

DOCUMENTS_AT_ONCE = 20
"""Documents that one turn writes at most; the next one comes soon."""
LOOKED_AT_ONCE = 60
"""Operations that one turn looks at: those whose query has not read enough yet keep none behind them waiting."""
MEASURED_WITHIN = timedelta(seconds=30)
"""How long the evidence of a finished move waits for the query to read what the standby held: then its replay can be
counted."""

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
