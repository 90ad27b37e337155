"""Secrets by reference: ``env:NAME`` or ``file:PATH`` names the place where one lies, and it is read when it is used.

So a secret that was changed counts from the next connection on, and none is in the settings of a process.
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

SECRET_NAME = r"(?i)(password|passwd|secret|secret[._-]?key|account\.key.*|keystore\.key|token|jaas\.config)$"
"""Ends the name of a setting that is a secret, where the setting belongs to another program; read so by Java, too."""


@dataclass(frozen=True, slots=True)
class Broken(Exception):
    """A reference cannot be used, or is missing; ``why`` never holds the secret."""

    why: str


def looks_secret(key: str) -> bool:
    """Whether a key that belongs to another program is, by its name, that of a secret."""
    return re.search(SECRET_NAME, key) is not None


def is_reference(value: object) -> bool:
    """Whether the value names a place where a secret is."""
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def absolute(reference: str, base: Path) -> str:
    """The reference with a path that no working folder changes; files are relative to ``base``."""
    scheme, _, name = reference.partition(":")
    return f"file:{base / name}" if scheme == "file" else reference


def secret_behind(value: object, base: Path, environment: Mapping[str, str]) -> str:
    """The secret behind a reference; files are relative to ``base``. Raises ``Broken``."""
    if not isinstance(value, str) or not is_reference(value):
        raise Broken("do not write a secret here; give it as env:NAME or file:PATH")
    scheme, _, name = value.partition(":")
    if scheme == "env":
        if not environment.get(name):
            raise Broken(f"the environment variable {name} is {'empty' if name in environment else 'not set'}")
        return environment[name]
    file = base / name
    try:
        if not file.is_file():
            raise Broken(f"{file} is not a file")
        if file.stat().st_mode & stat.S_IWOTH:
            raise Broken(
                f"each user of this host may write {file}, so its content proves nothing; run chmod 600 {file}"
            )
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not valid UTF-8 text"
        raise Broken(f"{file} cannot be read: {reason}") from None
    if not secret:
        raise Broken(f"{file} is empty")
    return secret


def reveal(secret: SecretStr) -> str:
    """What a client of Kafka needs now: the text behind a reference, or what a program gave instead of one.

    Raises ``Broken`` when the place that it names has no secret any more.
    """
    value = secret.get_secret_value()
    return secret_behind(value, Path(), os.environ) if is_reference(value) else value
