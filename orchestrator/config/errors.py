"""A configuration's mistakes in an operator's words: where, what, and what was probably meant."""

import difflib
import typing
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from state.settings.keys import Tideover
from state.settings.security import WAYS_IN

_SAID_BY_US = ("Value error, ", "Assertion failed, ")

_WORDS: Mapping[str, str] = {
    "missing": "is required",
    "string_type": "must be text",
    "path_type": "must be a path",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "tuple_type": "must be a list",
    "dict_type": "must be a group of keys",
    "model_type": "must be a group of keys",
    "too_short": "must have {min_length} or more entries",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_not_found": "is required",
    "union_tag_invalid": "must be one of {expected_tags}",
}
"""Pydantic's kinds of mistakes as an operator would say them, who knows YAML and not Python."""


def worded(error: ValidationError) -> list[str]:
    """One sentence per mistake, ``path: what``; several of one check stand on lines of their own.

    A value that may be of several kinds and is of none gets one sentence, not one for each kind.
    """
    lines_of: dict[str, list[str]] = {}
    found = error.errors(include_url=False, include_input=False)
    for mistake in found:
        if mistake["type"] == "too_short" and any(_is_inside(other["loc"], mistake["loc"]) for other in found):
            continue  # it is too short because of the mistaken entries
        path = ".".join(str(part) for part in (*_readable(mistake["loc"]), *_chooser(mistake)))
        lines_of.setdefault(path, []).extend(_lines(mistake))
    return [f"{path}: {line}" if path else line for path, lines in lines_of.items() for line in _alternatives(lines)]


def _chooser(mistake: ErrorDetails) -> Iterator[str]:
    """The key that chooses among several groups, where that is the mistake: the location ends before it."""
    if mistake["type"] in {"union_tag_not_found", "union_tag_invalid"}:
        yield mistake["ctx"]["discriminator"].strip("'")


def _lines(mistake: ErrorDetails) -> list[str]:
    if mistake["type"] == "extra_forbidden":
        return ["no such key" + _suggestion(mistake["loc"])]
    if mistake["type"] in _WORDS:
        return [_WORDS[mistake["type"]].format(**mistake.get("ctx", {}))]
    text = mistake["msg"]
    for prefix in _SAID_BY_US:
        text = text.removeprefix(prefix)
    return text.splitlines()


def _is_inside(location: Sequence[str | int], group: Sequence[str | int]) -> bool:
    return len(location) > len(group) and location[: len(group)] == group


def _alternatives(lines: Sequence[str]) -> list[str]:
    """Several ``must be`` of one value are its alternatives; what else was said stays as it is."""
    must = "must be "
    kinds = list(dict.fromkeys(line.removeprefix(must) for line in lines if line.startswith(must)))
    others = [line for line in dict.fromkeys(lines) if not line.startswith(must)]
    if not kinds:
        return others
    return [must + (", ".join(kinds[:-1]) + " or " if kinds[1:] else "") + kinds[-1], *others]


def _readable(location: Sequence[str | int]) -> Iterator[str | int]:
    """Pydantic's location without the names of union members and types."""
    for before, part in zip((None, *location), location, strict=False):
        if before == "sasl" and part in WAYS_IN:
            continue  # it names the group that was chosen, and is no key
        if isinstance(part, str) and part.startswith(("literal[", "dict[", "function-", "constrained-")):
            continue
        if isinstance(part, str) and part in {"str", "int", "float", "bool", "[key]"}:
            continue
        yield part


def _suggestion(location: Sequence[str | int]) -> str:
    known = _fields_at(location[:-1])
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _fields_at(location: Sequence[str | int]) -> list[str]:
    """The keys that the group at this place knows, found by walking the declared types."""
    here: object = Tideover
    for part in location:
        if part in WAYS_IN:
            here = WAYS_IN[str(part)]
        elif isinstance(here, type) and issubclass(here, BaseModel):
            field = next((f for n, f in here.model_fields.items() if part in {n, f.alias}), None)
            here = field.annotation if field else None
        else:
            here = next((arg for arg in reversed(typing.get_args(here)) if arg is not Ellipsis), None)
        here = _group_in(here)
    if isinstance(here, type) and issubclass(here, BaseModel):
        return [field.alias or name for name, field in here.model_fields.items()]
    return []


def _group_in(annotation: object) -> object:
    """The group inside ``Group | None``; anything else as it is."""
    if typing.get_origin(annotation) in {dict, tuple, list}:
        return annotation
    groups = [arg for arg in typing.get_args(annotation) if isinstance(arg, type) and issubclass(arg, BaseModel)]
    return groups[0] if groups else annotation
