"""The operations that are open: for those who drive them, and for those who only look.

A drill is open beside whatever else is: it is in nobody's way, and found by its own name alone.
"""

from state.model.entities import DRILLS, Operation
from state.store.controller_store import ControllerStore

_AT_MOST = 1_000_000
"""Far more than there can be: a query has one open move at most, and one drill."""


def open_operations(store: ControllerStore) -> list[Operation]:
    """Every open operation but drills, the oldest first."""
    return list(reversed(store.operations(only_open=True, limit=_AT_MOST)))


def open_operation(store: ControllerStore, query: str) -> Operation | None:
    """The open operation of a query; None where it has none. A drill is none."""
    return next(iter(store.operations(query=query, only_open=True, limit=1)), None)


def open_drills(store: ControllerStore) -> list[Operation]:
    """Every open drill, the oldest first."""
    return list(reversed(store.operations(only_open=True, limit=_AT_MOST, kinds=DRILLS)))


def open_drill(store: ControllerStore, query: str) -> Operation | None:
    """The open drill of a query; None where it has none."""
    return next(iter(store.operations(query=query, only_open=True, limit=1, kinds=DRILLS)), None)
