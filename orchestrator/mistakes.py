"""A configuration's mistakes in an operator's words: where, what, and what was probably meant."""

import difflib
import typing
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ValidationError

from state.settings import Tideover

_SAID_BY_US = ("Value error, ", "Assertion failed, ")


def worded(error: ValidationError) -> list[str]:
    """One sentence per mistake, ``path: what``; several of one check stand on lines of their own."""
    sentences: list[str] = []
    for mistake in error.errors(include_url=False, include_input=False):
        path = ".".join(str(part) for part in _readable(mistake["loc"]))
        text = mistake["msg"]
        for prefix in _SAID_BY_US:
            text = text.removeprefix(prefix)
        if mistake["type"] == "extra_forbidden":
            text = "no such key" + _suggestion(mistake["loc"])
        elif mistake["type"] == "missing":
            text = "is needed"
        sentences += [f"{path}: {line}" if path else line for line in text.splitlines()]
    return list(dict.fromkeys(sentences))


def undeclared_names(raw: object) -> Iterator[str]:
    """Names that queries and routes use and no group declares; told even when other mistakes hide the full check."""
    if not isinstance(raw, Mapping):
        return
    clusters, runners = _keys(raw.get("clusters")), _keys(raw.get("runners"))
    routes = raw.get("routes")
    for index, route in enumerate(routes if isinstance(routes, list) else ()):
        for name in (route.get("from"), route.get("to")) if isinstance(route, Mapping) else ():
            if isinstance(name, str) and name not in clusters:
                yield f"routes.{index}: cluster {name!r} is not declared"
    queries = raw.get("queries")
    for query, value in queries.items() if isinstance(queries, Mapping) else ():
        for key, noun, known in (("clusters", "cluster", clusters), ("runners", "runner", runners)):
            names = value.get(key) if isinstance(value, Mapping) else None
            for name in names if isinstance(names, list) else ():
                if isinstance(name, str) and name not in known:
                    yield f"queries.{query}.{key}: {noun} {name!r} is not declared"


def _keys(value: object) -> frozenset[str]:
    return frozenset(str(key) for key in value) if isinstance(value, Mapping) else frozenset()


def _readable(location: Sequence[str | int]) -> Iterator[str | int]:
    """Pydantic's location without the names of union members and types."""
    for part in location:
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
        if isinstance(here, type) and issubclass(here, BaseModel):
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
