"""The whole store: its parts side by side on one pair of engines."""

from state.ports import Store
from state.sql.assignments import Assignments
from state.sql.automation import Automation
from state.sql.facts import Facts
from state.sql.history import History
from state.sql.leading import Leading
from state.sql.operations import Intents, Operations
from state.sql.positions import Positions
from state.sql.requests import Requests
from state.sql.sightings import Sightings
from state.sql.timelines import Timelines
from state.sql.upkeep import Upkeep


class SqlStore(
    Leading,
    Requests,
    Assignments,
    Operations,
    Intents,
    Facts,
    Positions,
    Timelines,
    Automation,
    Sightings,
    Upkeep,
    History,
    Store,
):
    """A store in SQLite or PostgreSQL; ``state.sql.migrate.open_store`` makes one."""

    def close(self) -> None:
        self._engines.dispose()
