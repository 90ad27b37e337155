"""The mirror of Maven Central that Maven's own ``settings.xml`` names, with the user and password of its server.

Read as Maven reads it: the first mirror whose ``mirrorOf`` covers the repository ``central`` counts, and
``${env.NAME}`` is an environment variable. A password that Maven has encrypted cannot be read here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from streaming.errors import JarError

CENTRAL = "central"


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """A repository that is used instead of Maven Central."""

    name: str
    url: str
    user: str = ""
    password: str = field(default="", repr=False)


def mirror_in(path: Path, environment: Mapping[str, str]) -> Mirror | None:
    """The mirror of Central in a ``settings.xml``; None without the file, or without such a mirror. Raises JarError."""
    if not path.is_file():
        return None
    try:
        settings = ElementTree.fromstring(path.read_bytes())
    except (OSError, ElementTree.ParseError) as error:
        raise JarError(f"{path} cannot be read: {error}", hint=_HINT) from error
    for mirror in settings.iterfind("{*}mirrors/{*}mirror"):
        if _covers_central(_text(mirror, "mirrorOf", environment)) and _text(mirror, "blocked", environment) != "true":
            name = _text(mirror, "id", environment)
            user, password = _login(settings, name, path, environment)
            return Mirror(name=name, url=_text(mirror, "url", environment), user=user, password=password)
    return None


_HINT = "name the repository with TIDEOVER_JARS_REPOSITORY instead"


def _covers_central(mirror_of: str) -> bool:
    """``*``, ``external:*``, ``central``, and lists of these; ``!central`` excludes it."""
    words = {word.strip() for word in mirror_of.split(",")}
    return f"!{CENTRAL}" not in words and bool(words & {"*", "external:*", CENTRAL})


def _login(settings: ElementTree.Element, name: str, path: Path, environment: Mapping[str, str]) -> tuple[str, str]:
    for server in settings.iterfind("{*}servers/{*}server"):
        if _text(server, "id", environment) == name:
            password = _text(server, "password", environment)
            if re.fullmatch(r".*\{.+\}.*", password, re.DOTALL):
                raise JarError(f"{path}: Maven has encrypted the password of server {name}", hint=_HINT)
            return _text(server, "username", environment), password
    return "", ""


def _text(element: ElementTree.Element, child: str, environment: Mapping[str, str]) -> str:
    text = element.findtext(f"{{*}}{child}", default="").strip()
    return re.sub(r"\$\{env\.([\w.]+)\}", lambda named: environment.get(named[1], ""), text)
