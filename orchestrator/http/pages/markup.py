"""HTML from templates: everything is escaped, whatever it is called, and an unknown name is an error.

A page that was drawn of one status is kept for all requests before the next one: each more costs next to nothing.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from orchestrator.decide.desk.status import Status
from orchestrator.decide.times import iso, length

PAGE_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "referrer-policy": "same-origin",
}
"""Where a page differs from every other answer: its own style and script, and forms that come back here. Without a
referrer a browser would send ``Origin: null`` with a form."""
STATIC: Mapping[str, str] = {
    "desk.css": "text/css; charset=utf-8",
    "desk.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "icon-good.svg": "image/svg+xml",
    "icon-warn.svg": "image/svg+xml",
    "icon-bad.svg": "image/svg+xml",
    "plots.js": "text/javascript; charset=utf-8",
    "uplot/uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "uplot/uPlot.min.css": "text/css; charset=utf-8",
}
"""The files beside the pages; none of them shows anything of the store, so they are given without a token."""
UNKNOWN = "–"
PAGES = 64
"""How many drawn pages are kept, of some ten kilobytes each."""


@cache
def environment() -> Environment:
    """Where templates come from and what they may use."""
    made = Environment(
        loader=PackageLoader("orchestrator.http.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"ago": ago, "number": number, "seconds": seconds, "moment": moment, "clock": clock, "line": line}
    made.filters |= {
        "known": known,
        "known_seconds": known_seconds,
        "short_ago": short_ago,
        "length_since": length_since,
    }
    made.globals |= {"path_of": path_of}
    return made


def render(template: str, **values: object) -> Markup:
    """A template filled in, which may stand in another one as it is."""
    return Markup(environment().get_template(template).render(**values))  # autoescape made it


def page_response(markup: str, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A page with the headers of one."""
    return Response(markup, code, {**PAGE_HEADERS, **(headers or {})}, "text/html; charset=utf-8")


@cache
def static_file(name: str) -> bytes:
    """One of ``STATIC``."""
    return files("orchestrator.http.pages").joinpath("static", name).read_bytes()


def ago(then: datetime | None, now: datetime) -> str:
    """How long ago, in words."""
    return UNKNOWN if then is None else f"{length(now - then)} ago"


def length_since(then: datetime, now: datetime) -> str:
    """How long ago, without the word."""
    return length(now - then)


def short_ago(then: datetime | None, now: datetime) -> str:
    """How long ago, in one unit: ``9 s``, ``3 min``."""
    return UNKNOWN if then is None else " ".join(length(now - then).split(" ")[:2])


def number(value: float | None) -> str:
    """A count with thousands set apart."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", "\u202f")


def known(value: float | None) -> str:
    """A count in a sentence or a plan, where an empty place could be taken for none."""
    return "unknown" if value is None else number(value)


def known_seconds(value: float | None) -> str:
    """A length of time, as ``known`` has a count."""
    return "unknown" if value is None else seconds(value)


def seconds(value: float | None) -> str:
    """A length of time: seconds to a tenth below a minute."""
    if value is None:
        return UNKNOWN
    return f"{value:.1f} s" if value < 60 else length(timedelta(seconds=value))


def moment(at: datetime | None) -> Markup:
    """A time as an element that programs can read, in UTC."""
    if at is None:
        return Markup(UNKNOWN)
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M:%S} UTC</time>').format(iso(at), at)


def clock(at: datetime | None) -> Markup:
    """The time of day alone; the element has the rest."""
    if at is None:
        return Markup(UNKNOWN)
    return Markup('<time datetime="{0}" title="{0}">{1:%H:%M:%S}</time>').format(iso(at), at)


def path_of(folder: str, name: str) -> str:
    """The path of a page, whatever the name is."""
    return f"/{folder}/{quote(name, safe='')}"


def line(text: str | None) -> str:
    """The first line of a text."""
    return (text or "").partition("\n")[0]


@dataclass
class Drawn:
    """The newest drawing of each page; several threads may call it."""

    _kept: OrderedDict[Hashable, tuple[Status, Markup]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, page: Hashable, status: Status, draw: Callable[[], Markup]) -> Markup:
        """The page as it was drawn of this very status, else as ``draw`` makes it."""
        with self._lock:
            kept = self._kept.get(page)
        if kept is not None and kept[0] is status:
            return kept[1]
        markup = draw()
        with self._lock:
            self._kept[page] = (status, markup)
            self._kept.move_to_end(page)
            while len(self._kept) > PAGES:
                self._kept.popitem(last=False)
        return markup
