"""The configuration as it stands, defaults included and secrets masked: what ``config show`` prints."""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path

from pydantic import BaseModel, SecretStr

from state.settings import Tideover

MASK = "*****"
_SECRET_KEY = re.compile(r"password|secret|token|jaas|credential", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(://[^/@:]*:)[^/@]+(@)")


def masked(settings: Tideover) -> dict[str, object]:
    """Plain JSON types in the shape of the file."""
    shown = _plain(settings)
    if not isinstance(shown, dict):
        raise TypeError("a group of settings is a mapping")
    shown["store"] = _URL_PASSWORD.sub(rf"\g<1>{MASK}\g<2>", settings.store.get_secret_value())
    return shown


def _plain(value: object, key: str = "") -> object:
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {(fields[name].alias or name): _plain(inner, name) for name, inner in value}
    if isinstance(value, SecretStr) or (isinstance(value, str) and _SECRET_KEY.search(key)):
        return MASK
    if isinstance(value, timedelta):
        return duration(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner, key) for inner in value]
    return value


def duration(value: timedelta) -> str:
    """A duration as it is written in the file: the largest unit that leaves a whole number."""
    milliseconds = round(value.total_seconds() * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"
