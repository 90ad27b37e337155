"""The values of calls as JSON, written and read by their types.

What comes from another process is checked. A value of another type is refused with the place where it was, and never
kept. A model of pydantic does the same; these values are frozen dataclasses with packed rings, which it would unpack.
"""

import base64
import binascii
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from state.json_object import JsonObject
from state.model.entities import Fingerprint
from state.model.fingerprints import Fingerprints

_LARGEST = 2**63
"""Both databases keep integers of 64 bits."""
_MICROSECOND = timedelta(microseconds=1)


class Form(NamedTuple):
    """How the values of one type are written and read; ``read`` raises ``ValueError``."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@cache
def form_of(kind: Any) -> Form:
    """The form of a type. Raises ``TypeError`` for one that no call has."""
    if kind is object or kind is Any:
        return Form(_plain, _same)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return _of_union(inner)
    if origin is Sequence and inner == (Fingerprint,):
        return Form(lambda value: _write_bytes(Fingerprints.of(value).to_bytes()), _read_ring)
    if origin in {Sequence, Iterable, tuple} and inner[1:] in {(), (...,)}:
        return _of_rows(form_of(inner[0]), tuple if origin is tuple else list)
    if origin is Mapping:
        return _of_mapping(form_of(inner[0]), form_of(inner[1]))
    if isinstance(kind, type):
        return _of_class(kind)
    raise TypeError(f"{kind} has no form")


def _of_class(kind: Any) -> Form:
    if issubclass(kind, Enum):
        return Form(lambda value: kind(value).value, partial(_read_member, kind))
    if issubclass(kind, JsonObject):
        return Form(lambda value: value.as_json(), kind.of)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _of_named_tuple(kind)
    if is_dataclass(kind):
        return _of_dataclass(kind)
    raise TypeError(f"{kind} has no form")


def _of_dataclass(kind: Any) -> Form:
    hints = get_type_hints(kind)
    forms = {each.name: form_of(hints[each.name]) for each in fields(kind)}
    needed = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}

    def write(value: Any) -> dict[str, Any]:
        return {name: form.write(getattr(value, name)) for name, form in forms.items()}

    def read(found: Any) -> Any:
        if not isinstance(found, dict):
            raise _wrong(f"a {kind.__name__}", found)
        if strange := found.keys() - forms.keys():
            raise ValueError(f"a {kind.__name__} has no {', '.join(sorted(strange))}")
        if missing := needed - found.keys():
            raise ValueError(f"a {kind.__name__} needs {', '.join(sorted(missing))}")
        return kind(**{name: _at(name, forms[name], value) for name, value in found.items()})

    return Form(write, read)


def _of_named_tuple(kind: Any) -> Form:
    hints = get_type_hints(kind)
    forms = {name: form_of(hints[name]) for name in kind._fields}

    def write(value: Any) -> list[Any]:
        return [form.write(each) for form, each in zip(forms.values(), value, strict=True)]

    def read(found: Any) -> Any:
        if not isinstance(found, list) or len(found) != len(forms):
            raise _wrong(f"a {kind.__name__}", found)
        return kind(*(_at(name, form, each) for (name, form), each in zip(forms.items(), found, strict=True)))

    return Form(write, read)


def _of_union(kinds: Sequence[Any]) -> Form:
    """Of what may be None, or of types that are written as different kinds of JSON."""
    forms = {kind: form_of(kind) for kind in kinds if kind is not NoneType}
    has_none = len(forms) < len(kinds)

    def write(value: Any) -> Any:
        if value is None and has_none:
            return None
        if len(forms) == 1:
            (form,) = forms.values()
            return form.write(value)
        return forms[type(value)].write(value)

    def read(found: Any) -> Any:
        if found is None and has_none:
            return None
        wrong: ValueError | None = None
        for form in forms.values():
            try:
                return form.read(found)
            except ValueError as error:
                wrong = wrong or error
        raise wrong or _wrong("nothing", found)

    return Form(write, read)


def _of_rows(form: Form, gathered: Callable[[Iterable[Any]], Sequence[Any]]) -> Form:
    def read(found: Any) -> Sequence[Any]:
        if not isinstance(found, list):
            raise _wrong("an array", found)
        return gathered(_at(str(index), form, each) for index, each in enumerate(found))

    return Form(lambda value: [form.write(each) for each in value], read)


def _of_mapping(keys: Form, values: Form) -> Form:
    def read(found: Any) -> dict[Any, Any]:
        if not isinstance(found, dict):
            raise _wrong("an object", found)
        return {keys.read(key): _at(key, values, value) for key, value in found.items()}

    return Form(lambda value: {keys.write(key): values.write(each) for key, each in value.items()}, read)


def _at(name: str, form: Form, found: Any) -> Any:
    try:
        return form.read(found)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _wrong(wanted: str, found: object) -> ValueError:
    """Without the value, which may be long, or a secret."""
    return ValueError(f"wants {wanted}, and got {type(found).__name__}")


def _same(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """JSON's own types, as a store keeps them: mappings become objects, sequences arrays. Raises ``TypeError``."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{type(value).__name__} is not JSON")


def _read_member(kind: Any, found: Any) -> Any:
    try:
        return kind(found)
    except ValueError:
        raise _wrong(f"a {kind.__name__}", found) from None


def _read_bool(found: Any) -> bool:
    if not isinstance(found, bool):
        raise _wrong("true or false", found)
    return found


def _read_int(found: Any) -> int:
    if type(found) is not int or not -_LARGEST <= found < _LARGEST:
        raise _wrong("an integer of 64 bits", found)
    return found


def _read_float(found: Any) -> float:
    if type(found) not in {int, float} or not math.isfinite(found):
        raise _wrong("a number", found)
    return float(found)


def _read_text(found: Any) -> str:
    if not isinstance(found, str):
        raise _wrong("text", found)
    return found


def _write_time(value: datetime) -> str:
    """Raises ``ValueError`` for a time without a zone, as the store does."""
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone")
    return value.astimezone(UTC).isoformat()


def _read_time(found: Any) -> datetime:
    value = datetime.fromisoformat(_read_text(found))
    if value.tzinfo is None:
        raise ValueError("wants a time with its zone")
    return value.astimezone(UTC)


def _read_length(found: Any) -> timedelta:
    return _read_int(found) * _MICROSECOND


def _write_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _read_bytes(found: Any) -> bytes:
    try:
        return base64.b64decode(_read_text(found), validate=True)
    except binascii.Error:
        raise _wrong("base64", found) from None


def _read_ring(found: Any) -> Fingerprints:
    return Fingerprints.from_bytes(_read_bytes(found))


_SIMPLE: Mapping[Any, Form] = {
    NoneType: Form(_same, _same),
    bool: Form(_same, _read_bool),
    int: Form(_same, _read_int),
    float: Form(_same, _read_float),
    str: Form(_same, _read_text),
    datetime: Form(_write_time, _read_time),
    timedelta: Form(lambda value: value // _MICROSECOND, _read_length),
    bytes: Form(_write_bytes, _read_bytes),
}
