"""How far each receiver of notices has been told of the history. Frozen, and pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeCursor:
    """One receiver; one row each, so that whoever leads next goes on where this one stood."""

    target: str
    sequence: int
    """The last line of the history that was told, or did not have to be."""
    incidents: Mapping[str, str]
    """Incidents that it was told of and that are not over, each with the title under which it was told last."""
    told_at: datetime | None = None
    """When it took a notice last."""
    failures: int = 0
    """Tries that failed, since the row began."""
    failing_since: datetime | None = None
    """Since when every try has failed; None while they do not."""
    error: str = ""
    """Of the last try; empty when that went well."""
