"""What may be written for one setting. Pure."""

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
    """A bound on a duration, printed as the file writes it."""

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


def _check_label(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_./@-]{0,63}", text):
        raise ValueError(
            f"{text!r} is not the value of a label: up to 64 letters, digits, '.', '_', '-', '/' and '@', "
            "the first a letter or digit"
        )
    return text


def _check_address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not re.fullmatch(r"[^\s,/]+", host) or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not host:port")
    return text


def host_and_port(address: str) -> tuple[str, int]:
    """Both parts of ``host:port``; an IPv6 address without its brackets."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether a host, with a port or without, is this host alone, by a name that no name server can lead elsewhere."""
    host = re.sub(r":[0-9]{1,5}$", "", address) if address.count(":") == 1 or address.startswith("[") else address
    host = host.removeprefix("[").removesuffix("]").lower()
    return host in {"localhost", "::1"} or re.fullmatch(r"127(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}", host) is not None


def is_open(url: str) -> bool:
    """Whether what is sent to a URL goes unencrypted to another host."""
    found = re.match(r"http://([^/\s?#]+)", url)
    return found is not None and not is_loopback(found[1])


def login_mistakes(url: str | None, username: str | None, password: object) -> list[str]:
    """What is wrong with the login of a service, a sentence each."""
    mistakes = []
    if (username is None) != (password is None):
        mistakes.append("username and password must be set together")
    if password is not None and url is not None and is_open(url):
        mistakes.append(f"{url} would get the password unencrypted on another host: use https")
    return mistakes


def _check_listen(text: str) -> str:
    if text == "off":
        return text
    try:
        return _check_address(text)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from None


def _check_controller(text: str) -> str:
    found = re.fullmatch(r"(https?)://([^/@\s?#]+)(/[^@\s?#]*)?", text)
    if found is None:
        raise ValueError(f"{text!r} is not https://host:port")
    _check_address(found[2] if re.search(r":\d+$", found[2]) else f"{found[2]}:443")
    if is_open(text):
        raise ValueError(f"{text!r} would send the token unencrypted to another host: use https")
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
        raise ValueError(f"{text!r} is not a regular expression that Java and Python read alike: {error}") from None
    return text


def _read_buffer(value: object) -> object:
    try:
        return value if value == "measured" else parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}, or measured") from None


def _check_cluster_id(text: str) -> str:
    """22 characters of URL-safe Base64 hold the 16 bytes of a UUID, as Kafka makes it."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{22}", text):
        raise ValueError(f"{text!r} is not a cluster's id: the 22 characters that kafka-cluster.sh cluster-id prints")
    return text


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Buffer = Annotated[timedelta | Literal["measured"], BeforeValidator(_read_buffer)]
Name = Annotated[str, AfterValidator(_check_name)]
LabelValue = Annotated[str, AfterValidator(_check_label)]
Address = Annotated[str, AfterValidator(_check_address)]
"""``host:port``."""
Listen = Annotated[str, AfterValidator(_check_listen)]
"""``host:port``, or ``off``."""
ControllerUrl = Annotated[str, AfterValidator(_check_controller)]
"""``https://host:port``, or ``http`` on this host."""
ClusterId = Annotated[str, AfterValidator(_check_cluster_id)]
Pipeline = Annotated[str, AfterValidator(_check_pipeline)]
"""``module:function``."""
Pattern = Annotated[str, AfterValidator(_check_pattern)]
"""A regular expression over whole names of topics."""
