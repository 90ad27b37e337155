"""Sending by apprise, which knows some 150 services by their URLs; the seam of that library, and an extra.

Its log may hold parts of a URL, and so of a secret: it goes nowhere but into the error of the try, without them.
"""

import logging
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import apprise
from apprise import AppriseAsset, NotifyType, PersistentStoreMode

from orchestrator.errors import ConfigError
from orchestrator.notify.incidents import Notice, Severity, State
from state.settings.keys import NotifyTarget

_TYPES = {
    Severity.INFO: NotifyType.INFO,
    Severity.WARNING: NotifyType.WARNING,
    Severity.CRITICAL: NotifyType.FAILURE,
}
_LONGEST = 300
_SECRET = 5
"""A piece of a URL that is at least this long is kept out of the log."""

logging.getLogger("apprise").propagate = False


class AppriseChannel:
    """One receiver, by its URL. Raises ``ConfigError`` where apprise cannot read that."""

    def __init__(self, target: NotifyTarget) -> None:
        self._url = target.url.get_secret_value()
        asset = AppriseAsset(
            app_id="Tideover", app_desc="Tideover", app_url="", storage_mode=PersistentStoreMode.MEMORY
        )  # fmt: skip
        self._apprise = apprise.Apprise(asset=asset)
        if not self._apprise.add(self._url):
            raise ConfigError(
                f"notify.targets: apprise cannot read the url of {target.name}",
                hint="https://github.com/caronc/apprise/wiki shows how each service's url is written",
            )

    def send(self, notice: Notice) -> str:
        """Send it, and return why that failed, or nothing."""
        kind = NotifyType.SUCCESS if notice.state is State.CLOSED else _TYPES[notice.severity]
        with self._apprise.notify(title=notice.subject, body=notice.body, notify_type=kind) as result:
            said = [entry.message for entry in result.logs() if entry.level in {"WARNING", "ERROR", "CRITICAL"}]
            return "" if result else self._why(said) or "it was not taken"

    def _why(self, lines: Iterable[str]) -> str:
        """On one line, without anything of the URL but its host."""
        text = " ".join("; ".join(lines).split())
        host = urlsplit(self._url).hostname or ""
        for piece in sorted(set(re.split(r"[/:@?&=]+", self._url)), key=len, reverse=True):
            if len(piece) >= _SECRET and piece.lower() != host:
                text = text.replace(piece, "*****")
        return text[:_LONGEST]
