"""The three commands of an application: start it, stop it, and whether it runs.

A command is a list of words and no line for a shell. ``status`` answers as the Linux Standard Base has it for services:
0, it runs; 3, it does not. Any other code is no answer, and what may run is treated as running. A line ``identity=...``
of its output names what runs, such as a process and its start: another one later is another start of the application.
"""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, SecretStr

from state.model.entities import Assignment
from state.settings.keys import ExternalApplication, Tideover
from state.settings.topics import all_topics_of
from streaming.process import environment_of_others
from streaming.spark.errors import CommandCutOff, CommandFailed

COMMAND_SECONDS = 120.0
"""How long one may take; ``status`` is waited for as long as the rest."""
STATUS_SECONDS = 20.0
_RUNS, _ENDED = 0, 3
_TAIL_BYTES = 2000
_IDENTITY = "identity="


class Status(NamedTuple):
    """What the command ``status`` said."""

    runs: bool | None
    """None: it gave no answer."""
    text: str
    """Why not."""
    identity: str | None = None
    """Of what runs; None where it prints none."""


@dataclass(frozen=True, slots=True)
class ApplicationCommands:
    """Of one query under one row."""

    application: ExternalApplication
    values: Mapping[str, str]
    """By the word in braces, what replaces it."""
    base: Path
    """The folder in which they run: that of the configuration."""
    secret: frozenset[str] = frozenset()
    """Variables behind references of the configuration: secrets of Tideover's, and none of the application's."""

    @classmethod
    def of(cls, settings: Tideover, row: Assignment, base: Path) -> "ApplicationCommands":
        """The commands of a query where a row places it. Raises ``ValueError`` for one without commands."""
        query = settings.queries[row.query]
        if query.application is None:
            raise ValueError(f"{row.query} has no commands")
        values = {
            "bootstrap": ",".join(settings.clusters[row.cluster].bootstrap),
            "cluster": row.cluster,
            "topics": ",".join(sorted(all_topics_of(settings, query, row.cluster))),
            "checkpoint": row.checkpoint,
            "epoch": str(row.epoch),
            "query": row.query,
        }
        return cls(query.application, values, base, frozenset(_referred(settings)))

    def start(self) -> str | None:
        """Start it; its identity, where the command prints one. Raises ``CommandFailed``."""
        return _identity_in(self._require("start", self.application.start))

    def stop(self) -> None:
        """Have it stopped; whether it has ended only ``status`` says. Raises ``CommandFailed``."""
        self._require("stop", self.application.stop)

    def status(self) -> Status:
        """Whether it runs."""
        try:
            code, lines = self._run(self.application.status, STATUS_SECONDS)
        except CommandFailed as error:
            return Status(None, f"status cannot be read: {error}")
        if code in {_RUNS, _ENDED}:
            return Status(code == _RUNS, "", _identity_in(lines) if code == _RUNS else None)
        why = f"status ended with code {code}, which is neither 0 (it runs) nor 3 (it has ended){_last_of(lines)}"
        return Status(None, why)

    def _require(self, name: str, words: Sequence[str]) -> list[str]:
        code, lines = self._run(words, COMMAND_SECONDS)
        if code != 0:
            raise CommandFailed(f"{name} ended with code {code}{_last_of(lines)}", hint=f"the command is {words[0]}")
        return lines

    def _run(self, words: Sequence[str], seconds: float) -> tuple[int, list[str]]:
        """The exit code, and the last lines that it printed. Raises ``CommandFailed``.

        Output goes to a file: what is started may keep it open for as long as it runs.
        """
        line = [re.sub(r"\{(\w+)\}", lambda found: self.values.get(found[1], found[0]), word) for word in words]
        with tempfile.TemporaryFile() as said:
            try:
                running = subprocess.Popen(
                    line, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self.base, start_new_session=True,
                    env=environment_of_others(self.secret),
                )  # fmt: skip
            except OSError as error:
                raise CommandFailed(f"{line[0]} cannot be started: {error.strerror}") from None
            try:
                code = running.wait(seconds)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)  # what it began in its session as well
                running.wait()
                raise CommandCutOff(f"{line[0]} did not end within {seconds:.0f} s") from None
            said.seek(max(0, said.tell() - _TAIL_BYTES))
            lines = said.read().decode(errors="replace").strip().splitlines()
        return code, lines


def _last_of(lines: Sequence[str]) -> str:
    return f": {lines[-1]}" if lines else ""


def _identity_in(lines: Sequence[str]) -> str | None:
    """What the last such line says; nothing behind ``identity=`` says nothing."""
    said = [line.removeprefix(_IDENTITY).strip() for line in lines if line.startswith(_IDENTITY)]
    return said[-1] or None if said else None


def _referred(value: object) -> Iterator[str]:
    """The variables that ``env:NAME`` names anywhere in settings."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, str):
        if value.startswith("env:"):
            yield value.removeprefix("env:")
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _referred(getattr(value, name))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _referred(each)
    elif isinstance(value, (Sequence, Set)):
        for each in value:
            yield from _referred(each)
