"""What of a configuration may be shown: defaults filled in, and each secret replaced by ``MASK``."""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path

from pydantic import BaseModel, SecretStr

from state.settings.keys import Tideover
from state.settings.values import write_duration
from streaming.secrets import looks_secret, reveal

MASK = "*****"
_SECRET_KEY = re.compile(r"password|secret|token|jaas|credential", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?P<before>://[^:/@]*:)[^@]+@|(?P<key>[?&](?:ssl)?password=)[^&]+")
_SHAPES = (
    re.compile(r"(?P<before>://[^:/@\s]*:)[^@/\s]+(?=@)"),  # scheme://user:SECRET@host
    re.compile(r"(?P<before>^[\w.+-]+:)[^@/\s]+(?=@[\w.-]+(?::\d+)?$)"),  # user:SECRET@host
    re.compile(  # -Dtrust.password=SECRET, ?token=SECRET, password="SECRET"
        r"(?P<before>(?i:[\w.-]*(?:passw|passphrase|secret|token|credential|api[._-]?key)[\w.-]*)\s*[=:]\s*[\"']?)"
        r"[^\s&;,\"']+"
    ),
    re.compile(r"(?P<before>(?i:[\w.-]*\bpass)=[\"']?)[^\s&;,\"']+"),  # -Dstore.pass=SECRET
)
"""What a secret looks like inside a text that has no place for one of its own."""


def has_password(url: str) -> bool:
    """Whether a URL contains a password."""
    return _URL_PASSWORD.search(url) is not None


def without_password(url: str) -> str:
    """The URL with ``MASK`` for its password."""
    return _URL_PASSWORD.sub(lambda m: f"{m['before']}{MASK}@" if m["before"] else f"{m['key']}{MASK}", url)


def masked(settings: Tideover) -> dict[str, object]:
    """The configuration as it is, defaults included and secrets masked: what ``config show`` prints. Plain JSON
    types in the shape of the file.
    """
    shown = _plain(settings)
    if not isinstance(shown, dict):
        raise TypeError("a group of settings is a mapping")
    if settings.store.get_secret_value():
        shown["store"] = without_password(reveal(settings.store))
    else:
        del shown["store"]
    return shown


def without_secrets(text: str) -> str:
    """The text with ``MASK`` for each part of it that has the shape of a secret."""
    for shape in _SHAPES:
        text = shape.sub(lambda found: f"{found['before']}{MASK}", text)
    return text


def _plain(value: object, key: str = "") -> object:
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {(fields[name].alias or name): _plain(inner, name) for name, inner in value}
    if isinstance(value, SecretStr) or (isinstance(value, str) and (looks_secret(key) or _SECRET_KEY.search(key))):
        return MASK
    if isinstance(value, timedelta):
        return write_duration(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner, key) for inner in value]
    return without_secrets(value) if isinstance(value, str) else value
