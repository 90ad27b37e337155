"""One line of a terminal that is written again each second; a pipe or a file gets none of it.

The cursor stays at its beginning, so that whatever is printed next takes its place.
"""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable

from orchestrator.cli.render import in_letters_of

EVERY_SECONDS = 1.0
_CLEAR = "\r\x1b[2K"


class LiveLine:
    """On stderr, where that is a terminal."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """``now``: seconds on any clock that goes forward."""
        stream = sys.stderr
        self._stream = stream if stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb" else None
        self._now = now
        self._next_at = now()
        self._shown = False

    @property
    def is_due(self) -> bool:
        """Whether a second has passed since the line was written, on a terminal."""
        return self._stream is not None and self._now() >= self._next_at

    def show(self, text: str) -> None:
        """Write the line, cut where the terminal ends; an empty text takes it away."""
        self._next_at = self._now() + EVERY_SECONDS
        if not text:
            self.clear()
        elif self._stream is not None:
            columns = shutil.get_terminal_size().columns - 1
            cut = text if len(text) <= columns else f"{text[: columns - 1]}…"
            self._write(f"{_CLEAR}{in_letters_of(self._stream, cut)}\r")
            self._shown = True

    def clear(self) -> None:
        """Take the line away, before a line that stays."""
        if self._shown:
            self._write(_CLEAR)
            self._shown = False

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):  # the terminal is gone, and the verb continues
                self._stream.write(text)
                self._stream.flush()
