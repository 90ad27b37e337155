"""Fetches jars from a Maven repository or a folder, with the standard library alone: no Ivy, no Java.

``TIDEOVER_JARS_REPOSITORY`` names it, else the mirror in Maven's ``settings.xml``. Where neither does, this module has
nothing to do. Several jars come at once. One that was cut off continues at its last byte (``Range``), also in the next
process: its first part is kept as ``NAME.part``. Content is checked by who admits a jar, against the lock.
"""

import base64
import http.client
import shutil
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from streaming.errors import JarError
from streaming.jarsets.coordinate import Coordinate, Watch, arrived
from streaming.jarsets.maven_settings import mirror_in
from streaming.secrets import Broken, secret_behind

REPOSITORY, USER, PASSWORD = "TIDEOVER_JARS_REPOSITORY", "TIDEOVER_JARS_USER", "TIDEOVER_JARS_PASSWORD"
_AT_ONCE = 4
_ATTEMPTS = 4
_PAUSE_SECONDS = 0.5
"""Between the first two attempts; then twice that, and so on."""
_SECONDS = 30.0
"""The longest silence of a server."""
_PIECE = 1 << 16
_WATCH_SECONDS = 2.0
_NEXT = "run it again: it continues where it stopped"


def configured(environment: Mapping[str, str], home: Path) -> "Folder | Repository | None":
    """Where jars come from by the settings of this process and user; None leaves that to Ivy. Raises JarError."""
    place = environment.get(REPOSITORY, "").strip()
    if place:
        return _placed(place, REPOSITORY, environment.get(USER, ""), _password(environment))
    mirror = mirror_in(home / ".m2" / "settings.xml", environment)
    if mirror is None:
        return None
    return _placed(mirror.url, f"mirror {mirror.name} of ~/.m2/settings.xml", mirror.user, mirror.password)


def _placed(place: str, named_by: str, user: str, password: str) -> "Folder | Repository":
    parts = urllib.parse.urlsplit(place)
    if parts.scheme in {"http", "https"}:
        if parts.username or parts.password:
            raise JarError(f"{named_by} has a user in its address", hint=f"name them with {USER} and {PASSWORD}")
        return Repository(url=place, named_by=named_by, user=user, password=password)
    path = Path(urllib.request.url2pathname(parts.path) if parts.scheme == "file" else place).expanduser()
    if not path.is_dir():
        raise JarError(
            f"{named_by} is {place}, which is no folder here",
            hint="give a folder, or an address with http:// or https://",
        )
    return Folder(path=path.resolve(), named_by=named_by)


def _password(environment: Mapping[str, str]) -> str:
    value = environment.get(PASSWORD)
    try:
        return secret_behind(value, Path(), environment) if value else ""
    except Broken as error:
        raise JarError(f"{PASSWORD}: {error.why}", hint=f"for example {PASSWORD}=file:/etc/tideover/jars") from None


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder on this machine: a Maven repository, another machine's cache of jars, or jars side by side."""

    path: Path
    named_by: str

    def __str__(self) -> str:
        return f"{self.path} ({self.named_by})"

    def download(
        self, wanted: Iterable[Coordinate], work: Path, *, transitive: bool, watch: Watch
    ) -> dict[Coordinate, Path]:
        """Copy the wanted jars, and return all that are in ``work`` now. Raises JarError where one is missing."""
        jars = work / "jars"
        jars.mkdir(parents=True, exist_ok=True)
        wanted = list(wanted)
        for coordinate in wanted:
            if (found := self._find(coordinate)) is not None:
                part = jars / f"{coordinate.download_name}.part"
                shutil.copyfile(found, part)
                part.replace(jars / coordinate.download_name)
        return _whole(wanted, work, str(self))

    def _find(self, coordinate: Coordinate) -> Path | None:
        names = (coordinate.repository_name, coordinate.cache_name, coordinate.file_name)
        return next((path for name in names if (path := self.path / name).is_file()), None)


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A Maven repository behind HTTP."""

    url: str
    named_by: str
    """The setting that names it, for messages."""
    user: str = ""
    password: str = field(default="", repr=False)

    def download(
        self, wanted: Iterable[Coordinate], work: Path, *, transitive: bool, watch: Watch
    ) -> dict[Coordinate, Path]:
        """Fetch the wanted jars, and return all that are in ``work`` now.

        Raises JarError when the repository refuses, cannot be reached, or lacks one.
        """
        wanted = list(wanted)
        (work / "jars").mkdir(parents=True, exist_ok=True)
        stop = threading.Event()
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="jars") as pool:
            fetches = [pool.submit(self._fetch, each, work / "jars", stop) for each in wanted]
            try:
                _await(fetches, work / "jars", watch)
            finally:
                stop.set()  # after a refusal the others need not refuse, too
        return _whole(wanted, work, str(self))

    def __str__(self) -> str:
        return f"{self.url} ({self.named_by})"

    def _fetch(self, coordinate: Coordinate, jars: Path, stop: threading.Event) -> None:
        """Bring one jar, in several attempts; one that the repository does not have stays absent."""
        target = jars / coordinate.download_name
        part = jars / f"{coordinate.download_name}.part"
        for attempt in range(1, _ATTEMPTS + 1):
            if stop.is_set() or target.is_file():
                return
            try:
                self._continue(coordinate, part, stop)
            except urllib.error.HTTPError as error:
                if error.code in {404, 410}:
                    return
                if error.code == 416:
                    part.unlink(missing_ok=True)
                elif error.code < 500 and error.code not in {408, 429}:
                    raise self._refused(coordinate, error) from error
                problem, hint = f"it answers {error.code} {error.reason}", _NEXT
            except (OSError, http.client.HTTPException) as error:
                cause = getattr(error, "reason", error)
                problem, hint = str(cause) or type(cause).__name__, _NEXT
                if isinstance(cause, ssl.SSLCertVerificationError):
                    hint = "SSL_CERT_FILE=FILE names the certificates that Python trusts"
            else:
                if not stop.is_set():
                    part.replace(target)
                return
            if attempt < _ATTEMPTS:
                stop.wait(_PAUSE_SECONDS * 2 ** (attempt - 1))
        raise JarError(f"{self} does not give {coordinate}: {problem}", hint=hint)

    def _continue(self, coordinate: Coordinate, part: Path, stop: threading.Event) -> None:
        """Fetch what the part lacks. Raises OSError where the connection ends early."""
        have = part.stat().st_size if part.exists() else 0
        with self._open(coordinate, have) as answer:
            begins = _begin(answer)
            length = answer.headers.get("Content-Length")
            with part.open("r+b" if part.exists() else "wb") as file:
                file.truncate(begins)
                file.seek(begins)
                while not stop.is_set() and (piece := answer.read(_PIECE)):
                    file.write(piece)
                size = file.tell()
        if not stop.is_set() and length is not None and size < begins + int(length):
            raise ConnectionResetError(f"the connection ended after {size:,} of {begins + int(length):,} bytes")

    def _open(self, coordinate: Coordinate, have: int) -> http.client.HTTPResponse:
        request = urllib.request.Request(f"{self.url.rstrip('/')}/{coordinate.repository_name}")
        if have:
            request.add_header("Range", f"bytes={have}-")
        if self.user or self.password:  # not sent on to where a redirect leads
            login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {login}")
        opener = urllib.request.build_opener()  # urlopen keeps the proxies of its first call
        answer: http.client.HTTPResponse = opener.open(request, timeout=_SECONDS)
        return answer

    def _refused(self, coordinate: Coordinate, error: urllib.error.HTTPError) -> JarError:
        login = f"set {USER}, and {PASSWORD} as env:NAME or file:PATH; the server refused "
        login += f"user {self.user}" if self.user else "a request without a user"
        hints = {
            401: login,
            403: login,
            407: "the proxy wants a user: https_proxy=http://USER:PASSWORD@HOST:PORT",
        }
        return JarError(
            f"{self} refuses {coordinate}: {error.code} {error.reason}",
            hint=hints.get(error.code, f"look at {self.url} with a browser, or name another with {REPOSITORY}"),
        )


def _begin(answer: http.client.HTTPResponse) -> int:
    """Where the answer begins: a server that knows no ranges sends the whole file."""
    if answer.status != http.client.PARTIAL_CONTENT:
        return 0
    return int(answer.headers["Content-Range"].removeprefix("bytes ").partition("-")[0])


def _await(fetches: Iterable[Future[None]], jars: Path, watch: Watch) -> None:
    """Report progress until all fetches have ended; raises what one of them raised."""
    left = set(fetches)
    while left:
        done, left = wait(left, timeout=_WATCH_SECONDS, return_when=FIRST_EXCEPTION)
        for each in done:
            each.result()
        sizes = {path: path.stat().st_size for path in jars.iterdir()}
        watch(sum(path.suffix == ".jar" for path in sizes), sum(sizes.values()))


def _whole(wanted: list[Coordinate], work: Path, source: str) -> dict[Coordinate, Path]:
    brought = arrived(work)
    absent = [str(each) for each in wanted if each not in brought]
    if absent:
        more = f", nor {len(absent) - 1} more" if len(absent) > 1 else ""
        raise JarError(
            f"{source} has no {absent[0]}{more}",
            hint=f"add {'them' if more else 'it'} there, or name another place with {REPOSITORY}; what arrived is kept",
        )
    return brought
