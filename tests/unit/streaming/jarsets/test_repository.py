"""Jars from a repository or a folder: a real HTTP server on loopback that cuts, refuses, and knows ranges."""

import base64
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from streaming import jars
from streaming.errors import JarError
from streaming.jarsets import ivy, repository
from streaming.jarsets.coordinate import Coordinate
from streaming.jarsets.maven_settings import mirror_in
from streaming.jarsets.repository import PASSWORD, REPOSITORY, USER, Folder, Repository, configured

CLIENTS = Coordinate.parse("org.apache.kafka:kafka-clients:3.9.1")
NATIVE = Coordinate.parse("io.netty:netty-epoll:4.1.105.Final:linux-x86_64")
CONTENT = {CLIENTS: bytes(range(256)) * 4096, NATIVE: b"native"}
PATHS = {
    CLIENTS: "org/apache/kafka/kafka-clients/3.9.1/kafka-clients-3.9.1.jar",
    NATIVE: "io/netty/netty-epoll/4.1.105.Final/netty-epoll-4.1.105.Final-linux-x86_64.jar",
}


class Server(ThreadingHTTPServer):
    """A Maven repository that misbehaves as it is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {f"/maven/{PATHS[each]}": content for each, content in CONTENT.items()}
        self.requests: list[tuple[str, str | None, str | None]] = []
        """Path, ``Range`` and ``Authorization`` of each."""
        self.cut_after: list[int] = []
        """After so many bytes the next answers end."""
        self.answers: list[int] = []
        """Status codes of the next answers, instead of a file."""
        self.login = ""
        self.redirect_to = ""
        self.knows_ranges = True
        self.most_at_once = self._at_once = 0
        self.gate: threading.Barrier | None = None
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/maven/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that ends its connection is none."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, login, span = self.server, self.headers["Authorization"], self.headers["Range"]
        server.requests.append((self.path, span, login))
        if server.gate is not None:
            server.gate.wait(20.0)
        if server.answers:
            return self._refuse(server.answers.pop(0))
        if server.login and login != f"Basic {base64.b64encode(server.login.encode()).decode()}":
            return self._refuse(401)
        if server.redirect_to:
            self.send_response(302)
            self.send_header("Location", server.redirect_to + self.path)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        content = server.files.get("/maven/" + self.path.rpartition("/maven/")[2])
        return self._refuse(404) if content is None else self._send(content, span if server.knows_ranges else None)

    def _send(self, content: bytes, span: str | None) -> None:
        begin = int(span.removeprefix("bytes=").rstrip("-")) if span else 0
        if begin and begin >= len(content):
            self._refuse(416)
            return
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        rest = content[begin:]
        self.wfile.write(rest[: self.server.cut_after.pop(0)] if self.server.cut_after else rest)
        self.close_connection = True

    def _refuse(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        served.shutdown()
        thread.join(20.0)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow one another at once."""
    monkeypatch.setattr(repository, "_PAUSE_SECONDS", 0.001)


def of(server: Server, **login: str) -> Repository:
    return Repository(url=server.url, named_by=REPOSITORY, **login)


def fetch(
    source: Repository | Folder, work: Path, *wanted: Coordinate, seen: list[tuple[int, int]] | None = None
) -> dict[Coordinate, bytes]:
    watched = [] if seen is None else seen
    brought = source.download(
        wanted or CONTENT, work, transitive=False, watch=lambda *progress: watched.append(progress)
    )
    return {coordinate: path.read_bytes() for coordinate, path in brought.items()}


def test_jars_come_by_their_path_in_a_repository_and_are_counted(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    assert fetch(of(server), tmp_path, seen=seen) == CONTENT
    assert sorted(server.requests) == sorted((f"/maven/{path}", None, None) for path in PATHS.values())
    assert seen[-1] == (2, sum(map(len, CONTENT.values())))


def test_a_cut_connection_is_continued_at_its_last_byte(server: Server, tmp_path: Path) -> None:
    server.cut_after = [100_000, 50_000]
    assert fetch(of(server), tmp_path, CLIENTS) == {CLIENTS: CONTENT[CLIENTS]}
    assert [span for _, span, _ in server.requests] == [None, "bytes=100000-", "bytes=150000-"]


def test_the_next_process_continues_what_a_part_file_holds(server: Server, tmp_path: Path) -> None:
    server.cut_after = [100_000, 0, 0, 0]
    with pytest.raises(JarError, match="the connection ended after 100,000 of 1,048,576 bytes") as refused:
        fetch(of(server), tmp_path, CLIENTS)
    assert refused.value.hint == "run it again: it continues where it stopped"
    assert [path.name for path in (tmp_path / "jars").iterdir()] == [f"{CLIENTS.download_name}.part"]
    server.requests.clear()
    assert fetch(of(server), tmp_path, CLIENTS) == {CLIENTS: CONTENT[CLIENTS]}
    assert [span for _, span, _ in server.requests] == ["bytes=100000-"]


def test_a_server_that_knows_no_ranges_sends_the_whole_jar_again(server: Server, tmp_path: Path) -> None:
    server.knows_ranges, server.cut_after = False, [100_000]
    assert fetch(of(server), tmp_path, CLIENTS) == {CLIENTS: CONTENT[CLIENTS]}


def test_a_part_longer_than_the_jar_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"{NATIVE.download_name}.part").write_bytes(b"something longer")
    assert fetch(of(server), tmp_path, NATIVE) == {NATIVE: b"native"}


def test_several_jars_come_at_once(server: Server, tmp_path: Path) -> None:
    server.gate = threading.Barrier(2)  # each answer waits until both are requested
    assert fetch(of(server), tmp_path) == CONTENT


def test_a_server_in_trouble_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.answers = [503, 429]
    assert fetch(of(server), tmp_path, NATIVE) == {NATIVE: b"native"}


@pytest.mark.parametrize(
    ("code", "problem", "hint"),
    [
        (401, "refuses .* 401 Unauthorized", f"set {USER}, and {PASSWORD} as env:NAME or file:PATH"),
        (403, "refuses .* 403 Forbidden", "refused a request without a user"),
        (407, "refuses .* 407 ", "https_proxy=http://USER:PASSWORD@HOST:PORT"),
        (400, "refuses .* 400 Bad Request", f"name another with {REPOSITORY}"),
    ],
)
def test_a_refusal_ends_it_at_once_with_what_to_do(
    server: Server, tmp_path: Path, code: int, problem: str, hint: str
) -> None:
    server.answers = [code] * 9
    with pytest.raises(JarError, match=problem) as refused:
        fetch(of(server), tmp_path, CLIENTS)
    assert server.url in str(refused.value)
    assert hint in refused.value.hint
    assert len(server.requests) == 1


def test_a_server_that_stays_in_trouble_is_named_with_its_answer(server: Server, tmp_path: Path) -> None:
    server.answers = [503] * 9
    with pytest.raises(JarError, match=r"does not give org\.apache\.kafka:.*: it answers 503 Service Unavailable"):
        fetch(of(server), tmp_path, CLIENTS)


def test_a_jar_that_the_repository_lacks_is_named_and_the_others_are_kept(server: Server, tmp_path: Path) -> None:
    del server.files[f"/maven/{PATHS[CLIENTS]}"]
    with pytest.raises(JarError, match=r"has no org\.apache\.kafka:kafka-clients:3\.9\.1$") as refused:
        fetch(of(server), tmp_path)
    assert "what arrived is kept" in refused.value.hint
    assert (tmp_path / "jars" / NATIVE.download_name).read_bytes() == b"native"


def test_the_password_is_sent_and_not_to_where_a_redirect_leads(server: Server, tmp_path: Path) -> None:
    server.login = "spark:s3cret"
    assert fetch(of(server, user="spark", password="s3cret"), tmp_path / "direct") == CONTENT
    with Server() as elsewhere:
        threading.Thread(target=elsewhere.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        server.redirect_to = f"http://127.0.0.1:{elsewhere.server_port}"
        assert fetch(of(server, user="spark", password="s3cret"), tmp_path / "redirected") == CONTENT
        elsewhere.shutdown()
        assert [login for _, _, login in elsewhere.requests] == [None, None]
    assert "s3cret" not in repr(of(server, user="spark", password="s3cret"))


def test_a_proxy_of_the_environment_is_used(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    source = Repository(url="http://maven.example/maven", named_by=REPOSITORY)
    assert fetch(source, tmp_path, NATIVE) == {NATIVE: b"native"}
    assert server.requests[0][0] == f"http://maven.example/maven/{PATHS[NATIVE]}"


def test_a_repository_that_cannot_be_reached_is_named(tmp_path: Path, server: Server) -> None:
    server.server_close()
    with pytest.raises(
        JarError, match=r"127\.0\.0\.1:\d+/maven/ \(TIDEOVER_JARS_REPOSITORY\) does not give .* refused"
    ):
        fetch(of(server), tmp_path, CLIENTS)


@pytest.mark.parametrize("name", ["repository_name", "cache_name", "file_name"])
def test_a_folder_may_be_a_repository_a_cache_or_jars_side_by_side(tmp_path: Path, name: str) -> None:
    for coordinate, content in CONTENT.items():
        path = tmp_path / "jars" / getattr(coordinate, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    source = configured({REPOSITORY: str(tmp_path / "jars")}, tmp_path)
    assert isinstance(source, Folder)
    assert fetch(source, tmp_path / "work") == CONTENT
    (tmp_path / "jars" / getattr(NATIVE, name)).unlink()
    with pytest.raises(JarError, match=r"jars \(TIDEOVER_JARS_REPOSITORY\) has no io\.netty:netty-epoll"):
        fetch(source, tmp_path / "other")


# -- what is configured ----------------------------------------------------------------------------------------------
SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">
  <servers>
    <server><id>other</id><username>nobody</username></server>
    <server><id>ours</id><username>spark</username><password>{password}</password></server>
  </servers>
  <mirrors>
    <mirror><id>blocker</id><mirrorOf>external:http:*</mirrorOf><url>http://0.0.0.0/</url><blocked>true</blocked></mirror>
    <mirror><id>ours</id><mirrorOf>{of}</mirrorOf><url>https://maven.example/${{env.TEAM}}</url></mirror>
  </mirrors>
</settings>"""


def settings(home: Path, of: str = "*", password: str = "${env.PW}") -> Path:
    (home / ".m2").mkdir(exist_ok=True)
    path = home / ".m2" / "settings.xml"
    path.write_text(SETTINGS.format(of=of, password=password), encoding="utf-8")
    return path


def test_nothing_configured_leaves_it_to_ivy(tmp_path: Path) -> None:
    assert configured({}, tmp_path) is None
    settings(tmp_path, of="*,!central")
    assert configured({REPOSITORY: " "}, tmp_path) is None


@pytest.mark.parametrize("of", ["*", "central", "external:*", "other, central"])
def test_mavens_mirror_of_central_is_used_with_the_user_of_its_server(tmp_path: Path, of: str) -> None:
    settings(tmp_path, of)
    found = configured({"PW": "s3cret", "TEAM": "data"}, tmp_path)
    assert found == Repository(
        url="https://maven.example/data",
        named_by="mirror ours of ~/.m2/settings.xml",
        user="spark",
        password="s3cret",
    )


def test_the_variable_goes_before_mavens_settings(tmp_path: Path) -> None:
    settings(tmp_path)
    (tmp_path / "secret").write_text("from a file\n", encoding="utf-8")
    environment = {REPOSITORY: "https://jars.example/m2", USER: "me", PASSWORD: f"file:{tmp_path}/secret"}
    assert configured(environment, tmp_path) == Repository(
        url="https://jars.example/m2",
        named_by=REPOSITORY,
        user="me",
        password="from a file",
    )


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({REPOSITORY: "https://me:pw@jars.example/m2"}, "has a user in its address"),
        ({REPOSITORY: "https://jars.example/m2", PASSWORD: "s3cret"}, f"{PASSWORD}: do not write a secret here"),
        ({REPOSITORY: "https://jars.example/m2", PASSWORD: "env:NONE"}, "the environment variable NONE is not set"),
        ({REPOSITORY: "/no/such/folder"}, "which is no folder here"),
        ({REPOSITORY: "ftp://jars.example/m2"}, "which is no folder here"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(tmp_path: Path, environment: dict[str, str], problem: str) -> None:
    with pytest.raises(JarError, match=problem) as refused:
        configured(environment, tmp_path)
    assert "pw" not in str(refused.value).replace("password", "")
    assert "s3cret" not in str(refused.value)
    assert refused.value.hint


def test_a_password_that_maven_encrypted_and_a_broken_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(JarError, match="Maven has encrypted the password of server ours"):
        mirror_in(settings(tmp_path, password="{x9+jWv=}"), {})
    (tmp_path / ".m2" / "settings.xml").write_text("<settings>", encoding="utf-8")
    with pytest.raises(JarError, match=r"settings\.xml cannot be read"):
        configured({}, tmp_path)


# -- a whole set -----------------------------------------------------------------------------------------------------
@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of two jars, a cache of its own, and an Ivy that must not start."""
    lines = [f"{each} {hashlib.sha256(content).hexdigest()}" for each, content in CONTENT.items()]
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "demo.lock").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(jars, "_locks", lambda: tmp_path / "locks")
    monkeypatch.setattr(ivy, "java_home_binary", lambda: pytest.fail("Java was wanted"))
    monkeypatch.setenv("TIDEOVER_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("lock")
def test_a_set_is_fetched_without_java_from_what_the_environment_names(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(REPOSITORY, server.url)
    assert jars.main(["fetch", "demo"]) == 0
    out, err = capsys.readouterr()
    assert [Path(line).read_bytes() for line in out.splitlines()] == list(CONTENT.values())
    assert "demo: 2 of 2 jars, 1.0 MB\n" in err
    server.requests.clear()
    assert jars.main(["fetch", "demo"]) == 0
    assert server.requests == []


@pytest.mark.usefixtures("lock")
def test_a_jar_with_another_content_is_refused_and_fetched_again_next_time(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv(REPOSITORY, server.url)
    server.files[f"/maven/{PATHS[NATIVE]}"] = b"tampered"
    assert jars.main(["fetch", "demo"]) == 1
    assert "io.netty:netty-epoll:4.1.105.Final:linux-x86_64 has sha256" in capsys.readouterr().err
    assert [path for path in (tmp_path / "cache").rglob("*netty*") if path.is_file()] == []
    server.files[f"/maven/{PATHS[NATIVE]}"] = b"native"
    server.requests.clear()
    assert jars.main(["fetch", "demo"]) == 0
    assert [path for path, _, _ in server.requests] == [f"/maven/{PATHS[NATIVE]}"]
