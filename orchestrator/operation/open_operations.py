"""The operations that are open: for those who drive them, and for those who only look."""

from state.model.entities import Operation
from state.store.controller_store import ControllerStore

_AT_MOST = 1_000_000
"""Far more than there can be: a query has one open operation at most."""


def open_operations(store: ControllerStore) -> list[Operation]:
    """Every open operation, the oldest first."""
    return list(reversed(store.operations(only_open=True, limit=_AT_MOST)))


def open_operation(store: ControllerStore, query: str) -> Operation | None:
    """The open operation of a query; None where it has none."""
    return next(iter(store.operations(query=query, only_open=True, limit=1)), None)
