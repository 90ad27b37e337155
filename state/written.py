"""Single values as they stand in the configuration: what may be written, and the sentence when something else is."""

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h|d)?")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


def parse_duration(value: object) -> timedelta:
    """Turn ``"500ms"``, ``"15m"`` or a number of seconds into a ``timedelta``; anything else is a ``ValueError``."""
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    if match is None:
        raise ValueError(f"{value!r} is not a duration: write a number with ms, s, m, h or d, for example 15m")
    try:
        return timedelta(seconds=float(match["number"]) * _UNIT_SECONDS[match["unit"]])
    except OverflowError:
        raise ValueError(f"{value!r} is too long for a duration") from None


def write_duration(value: timedelta) -> str:
    """A duration as it is written in the file: the largest unit that leaves a whole number."""
    milliseconds = round(value.total_seconds() * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def between(low: timedelta, high: timedelta) -> AfterValidator:
    """A bound on a duration, told as the file writes it."""

    def check(value: timedelta) -> timedelta:
        if not low <= value <= high:
            raise ValueError(f"must be between {write_duration(low)} and {write_duration(high)}")
        return value

    return AfterValidator(check)


def _check_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text):
        raise ValueError(
            f"{text!r} is not a name: up to 64 letters, digits, '.', '_' and '-', the first a letter or digit"
        )
    return text


def _check_address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not host:port")
    return text


def _check_pipeline(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text):
        raise ValueError(f"{text!r} is not module:function")
    return text


def _check_pattern(text: str) -> str:
    """Spark reads it as Java does, and here the same topics must be found: so both have to read it."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression that Java and Python read alike: {error}") from None
    return text


def _read_buffer(value: object) -> object:
    try:
        return value if value == "measured" else parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or measured") from None


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Buffer = Annotated[timedelta | Literal["measured"], BeforeValidator(_read_buffer)]
Name = Annotated[str, AfterValidator(_check_name)]
Address = Annotated[str, AfterValidator(_check_address)]
"""``host:port``."""
Pipeline = Annotated[str, AfterValidator(_check_pipeline)]
"""``module:function``."""
Pattern = Annotated[str, AfterValidator(_check_pattern)]
"""A regular expression over whole names of topics."""
