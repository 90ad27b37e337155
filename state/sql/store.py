"""The whole store: its parts side by side on one pair of engines."""

from state.ports import Store
from state.sql.assignments import Assignments
from state.sql.facts import Facts
from state.sql.history import History
from state.sql.leading import Leading
from state.sql.operations import Intents, Operations
from state.sql.positions import Positions
from state.sql.requests import Requests


class SqlStore(Leading, Requests, Assignments, Operations, Intents, Facts, Positions, History, Store):
    """A store in SQLite or PostgreSQL; ``state.sql.migrate.open_store`` makes one."""

    def close(self) -> None:
        self._engines.dispose()
