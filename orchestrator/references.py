"""Secrets by reference: ``env:NAME`` or ``file:PATH`` stands in the configuration, never the secret itself.

Where Tideover names a key, it knows that it is a secret. In what is handed on to Spark, to Kafka's clients or to a
pipeline, the key's name tells: ``spark.hadoop.fs.s3a.secret.key``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SECRET_NAME = re.compile(
    r"(password|passwd|secret|secret[._-]?key|account\.key.*|keystore\.key|token|jaas\.config)$", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"(?P<before>://[^:/@]*:)[^@]+@|(?P<key>[?&](?:ssl)?password=)[^&]+")


@dataclass(frozen=True, slots=True)
class Broken(Exception):
    """A reference cannot be used, or is missing; ``why`` never holds the secret."""

    why: str


def is_secret(path: tuple[str, ...]) -> bool:
    """Whether the value at this path of the configuration must be given by reference."""
    match path:
        case ("http", "token") | ("clusters", _, "security", "key_password"):
            return True
        case ("clusters", _, "security", "sasl", "password"):
            return True
        case ("spark", "conf", key) | ("queries", _, "settings" | "spark", key):
            return looks_secret(key)
        case ("queries", _, "sources", _, "options", key) | ("queries", _, "output", "options", key):
            return looks_secret(key)
    return False


def looks_secret(key: str) -> bool:
    """Whether a key that belongs to somebody else is, by its name, that of a secret."""
    return _SECRET_NAME.search(key) is not None


def has_password(url: str) -> bool:
    """Whether a password stands in a URL."""
    return _URL_PASSWORD.search(url) is not None


def without_password(url: str, mask: str) -> str:
    """The URL with ``mask`` for its password."""
    return _URL_PASSWORD.sub(lambda m: f"{m['before']}{mask}@" if m["before"] else f"{m['key']}{mask}", url)


def is_reference(value: object) -> bool:
    """Whether the value names a place where a secret is."""
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def secret_behind(value: object, base: Path, environment: Mapping[str, str]) -> str:
    """The secret behind a reference; files are relative to ``base``. Raises ``Broken``."""
    if not isinstance(value, str) or not is_reference(value):
        raise Broken("a secret is not written here; name it as env:NAME or file:PATH")
    scheme, _, name = value.partition(":")
    if scheme == "env":
        if not environment.get(name):
            raise Broken(f"the environment variable {name} is {'empty' if name in environment else 'not set'}")
        return environment[name]
    file = base / name
    if not file.is_file():
        raise Broken(f"{file} is not a file")
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise Broken(f"{file} cannot be read: {reason}") from None
    if not secret:
        raise Broken(f"{file} is empty")
    return secret
