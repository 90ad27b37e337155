"""Frozen values that are kept as JSON objects: parsed here, and written here.

A dataclass with one field for each key derives from ``JsonObject``. Its field ``more`` holds the keys that this program
does not know: they are kept and written again, for a newer program wrote them. A key that is missing, or null, leaves
its field at the default. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple, Self

from state.errors import Damaged

How = dict[str, Any]
"""Metadata of a field: how it is kept."""

SELDOM: How = {"seldom": True}
"""The key is left out where the field is None, False or empty."""


def called(key: str) -> How:
    """Under another key than the field's name."""
    return {"key": key}


def part(kind: Any) -> How:
    """One object inside another."""
    return {"read": kind.of, "write": kind.as_json}


def rows(kind: Any) -> How:
    """An array of such values."""
    return {"read": lambda found: tuple(map(kind.of, found)), "write": lambda kept: [each.as_json() for each in kept]}


WORDS: How = {"read": tuple, "write": list}
"""An array of words."""


class _Field(NamedTuple):
    name: str
    key: str
    read: Callable[[Any], Any] | None
    write: Callable[[Any], Any] | None
    is_seldom: bool


@cache
def _fields_of(kind: Any) -> tuple[_Field, ...]:
    return tuple(
        _Field(each.name, how.get("key", each.name), how.get("read"), how.get("write"), "seldom" in how)
        for each in fields(kind)
        if each.name != "more"
        for how in (each.metadata,)
    )


@cache
def _keys_of(kind: Any) -> frozenset[str]:
    return frozenset(each.key for each in _fields_of(kind))


class JsonObject:
    """A frozen value with one field for each key of a JSON object."""

    __slots__ = ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """The value of a JSON object. Raises ``Damaged`` where it is not one, or lacks a key without a default."""
        kind: Any = cls
        known, values = _keys_of(kind), dict[str, Any]()
        try:
            for each in _fields_of(kind):
                if (value := row.get(each.key)) is not None:
                    values[each.name] = value if each.read is None else each.read(value)
            if more := {key: value for key, value in row.items() if key not in known}:
                values["more"] = more
            return cls(**values)
        except (AttributeError, TypeError, ValueError) as error:
            raise Damaged(f"{cls.__name__} cannot be read: {error}") from error

    def as_json(self) -> dict[str, Any]:
        """The JSON object, its keys in the order of the fields."""
        kind: Any = type(self)
        row: dict[str, Any] = {}
        for each in _fields_of(kind):
            value = getattr(self, each.name)
            if not each.is_seldom or not (value is None or value is False or value == ()):
                row[each.key] = value if each.write is None or value is None else each.write(value)
        more: Mapping[str, Any] = getattr(self, "more", {})
        return {**row, **more}
