"""A version to come, so that an upgrade can be tried: no released version has a second schema yet."""

from pathlib import Path

import pytest
from alembic.config import Config

from state.store.sql import migrate, store

NEXT = "0002"
STEP = "0002: The next schema: operations carry a ticket, and an index finds it."


def use_next_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program in this process is of the next version, which knows one step more."""
    plain = migrate._config

    def config(*given: object) -> Config:
        made = plain(*given)  # type: ignore[arg-type]
        made.set_main_option("path_separator", "newline")
        made.set_main_option("version_locations", f"state.store:migrations/versions\n{Path(__file__).parent}/versions")
        return made

    monkeypatch.setattr(migrate, "_config", config)
    for module in (migrate, store):
        monkeypatch.setattr(module, "HEAD", NEXT)
