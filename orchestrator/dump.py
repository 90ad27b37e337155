"""The configuration as it stands, defaults included and secrets masked: what ``config show`` prints."""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path

from pydantic import BaseModel, SecretStr

from orchestrator.references import without_password
from state.settings import Tideover
from state.written import write_duration
from streaming.secrets import looks_secret, reveal

MASK = "*****"
_SECRET_KEY = re.compile(r"password|secret|token|jaas|credential", re.IGNORECASE)


def masked(settings: Tideover) -> dict[str, object]:
    """Plain JSON types in the shape of the file."""
    shown = _plain(settings)
    if not isinstance(shown, dict):
        raise TypeError("a group of settings is a mapping")
    shown["store"] = without_password(reveal(settings.store), MASK)
    return shown


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
    return value
