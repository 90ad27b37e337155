"""Plain JSON, as every store keeps it: what goes in as a mapping or a tuple comes back as a dict or a list."""

import json
from collections.abc import Mapping
from enum import Enum
from typing import TypeVar, cast

Value = TypeVar("Value")


def dumps(value: object) -> str:
    """Compact JSON text; mappings of any type are objects. Raises ``TypeError`` for what JSON does not know."""
    return json.dumps(value, default=_known, separators=(",", ":"))


def plain(value: Value) -> Value:
    """The value as it would come back from a database: a deep copy in plain JSON types."""
    return value if value is None else cast("Value", json.loads(dumps(value)))


def _known(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} is not JSON: {value!r}")
