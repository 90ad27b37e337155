"""Whether a secret that stands somewhere is found there, and whether a search that could not find it says so."""

import io
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos import secrecy, sieve
from chaos.docker import Environment
from chaos.errors import DockerFailed, StoryFailed
from chaos.eye import TOOLS
from chaos.secrecy import Place, leaks_in, leaks_in_folder, search, secrets_of

ROOT = Path(__file__).resolve().parents[3]
FILES = {
    "west/tideover.password": "moat-and-drawbridge-51b7\n",
    "east/tideover.key": "-----BEGIN PRIVATE KEY-----\nMIGHAgEAportcullis\nK9uw\n-----END PRIVATE KEY-----\n",
}
SECRETS = secrets_of(FILES)
PASSWORD = SECRETS["west/tideover.password"]
SCRIPT = Path(sieve.__file__).read_text(encoding="utf-8")


def test_a_secret_is_a_password_or_the_first_line_of_a_key() -> None:
    assert SECRETS == {"west/tideover.password": "moat-and-drawbridge-51b7", "east/tideover.key": "MIGHAgEAportcullis"}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({**FILES, "west/admin.password": "\n"}, "west/admin.password holds no secret"),
        ({**FILES, "west/admin.password": "short\n"}, "west/admin.password holds no secret"),
        ({"east/tideover.key": FILES["east/tideover.key"]}, "no file \\*.password was made"),
        ({}, "no file \\*.password was made"),
    ],
)
def test_without_a_secret_that_can_be_searched_for_there_is_no_search(files: dict[str, str], why: str) -> None:
    with pytest.raises(StoryFailed, match=why):
        secrets_of(files)


@pytest.mark.parametrize("text", [f"password={PASSWORD};".encode(), f"\\\\x00{PASSWORD.encode().hex()}00".encode()])
def test_a_secret_is_told_by_its_name_and_its_place_also_where_a_dump_has_it_in_hexadecimal(text: bytes) -> None:
    clean = Place("the log of west-1", b"started")
    assert leaks_in(SECRETS, FILES, [clean, Place("the store", text)]) == [
        "west/tideover.password stands in the store"
    ]  # fmt: skip
    assert leaks_in(SECRETS, FILES, [clean]) == []


def test_a_place_in_which_something_known_does_not_stand_was_not_read() -> None:
    with pytest.raises(StoryFailed, match="the store was not read"):
        leaks_in(SECRETS, FILES, [Place("the store", b"", known="COPY")])


def test_a_search_that_does_not_find_a_secret_in_its_own_file_is_none() -> None:
    with pytest.raises(StoryFailed, match=r"does not find west/tideover.password in its own file"):
        leaks_in(SECRETS, {**FILES, "west/tideover.password": "another"}, [])


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"read": ["/a/offsets/1"], "unread": ["/a/b"], "hits": []}, "1 files in /a of one could not be read, /a/b"),
        (
            {"read": ["/a/b", "/c/offsets/1"], "unread": [], "hits": []},
            r"/a of one was not read: .* \*/offsets/\* among 2",
        ),
    ],
)
def test_a_folder_without_what_matters_in_it_was_not_read(told: dict[str, list[Any]], why: str) -> None:
    with pytest.raises(StoryFailed, match=why):
        leaks_in_folder("/a", "one", "/offsets/", told)


class Leaky(Environment):
    """A secured environment of one worker, on folders here; what its places hold is given to it."""

    def __init__(self, root: Path, **held: str) -> None:
        self.root = root
        self.held = held
        self.asked: list[tuple[str, ...]] = []
        self.thawed = False

    def thaw(self) -> None:
        self.thawed = True

    def services(self) -> list[str]:
        return ["controller-one", "postgres", "runner-a", "secrets", "verifier", "west-1", "worker-1", "worker-2"]

    def running(self) -> list[str]:
        return ["controller-one", "postgres", "verifier", "worker-2"]

    def log_of(self, service: str) -> str:
        usual = {"secrets": "credentials of east", "west-1": "(kafka.server.KafkaRaftServer)", "runner-a": "warmed up"}
        return usual.get(service, "") + self.held.get(f"log of {service}", "")

    def ask(self, service: str, *command: str, given: str = "", timeout: float = 0) -> bytes:
        assert self.thawed
        self.asked.append((service, *command))
        match command:
            case ["python", "-c", text, *words]:
                assert text == SCRIPT
                words = [f"{self.root}{word}" if word.startswith("/") else word for word in words]
                return sieve.answer(words, given).replace(str(self.root), "").encode()
            case ["sh", "-c", words] if "cmdline" in words:
                return f"sh -c {words} ".encode() + self.held.get(f"arguments of {service}", "").encode()
            case ["sh", "-c", _]:
                return f"protocol: SASL_SSL {self.held.get('config show', '')}".encode()
            case _:
                assert (service, command[0]) == ("postgres", "pg_dump")
                return f"COPY public.assignments (query) {self.held.get('store', '')}".encode()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What the volumes of an environment hold after a story."""
    for name, text in FILES.items():
        lay(tmp_path / "var/lib/lab/secrets" / name, text)
    lay(tmp_path / "var/lib/tideover/checkpoints/q/offsets/0", "{}")
    lay(tmp_path / "tmp/work/app-1/0/stderr", "INFO")
    lay(tmp_path / "docker.log", "$ docker exec x tideover list")
    return tmp_path


def lay(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_where_no_secret_stands_none_is_found_and_none_was_an_argument(root: Path) -> None:
    environment = Leaky(root)
    assert search(environment, root / "docker.log") == []
    said = " ".join(word for command in environment.asked for word in command)
    assert not any(secret in said for secret in SECRETS.values())


@pytest.mark.parametrize(
    ("held", "place"),
    [
        ("log of controller-one", "the log of controller-one"),
        ("log of worker-1", "the log of worker-1"),
        ("arguments of worker-2", "the arguments of a process in worker-2"),
        ("config show", "what `config show` says"),
        ("store", "the store"),
    ],
)
def test_a_secret_that_a_part_has_told_is_found(root: Path, held: str, place: str) -> None:
    environment = Leaky(root, **{held: f'password="{PASSWORD}";'})
    assert search(environment, root / "docker.log") == [f"west/tideover.password stands in {place}"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("var/lib/tideover/checkpoints/q/metadata", "/var/lib/tideover/checkpoints/q/metadata of verifier"),
        ("tmp/work/app-1/0/stdout", "/tmp/work/app-1/0/stdout of worker-2"),
        ("docker.log", "what verbs said"),
    ],
)
def test_a_secret_that_was_written_to_a_file_is_found(root: Path, path: str, place: str) -> None:
    lay(root / path, f"tideover list {SECRETS['east/tideover.key']}")
    assert search(Leaky(root), root / "docker.log") == [f"east/tideover.key stands in {place}"]


def test_a_container_that_does_not_find_a_secret_in_its_own_file_is_not_believed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Leaky.ask

    def blind(self: Leaky, service: str, *command: str, given: str = "", timeout: float = 0) -> bytes:
        return real(self, service, *command, given="{}" if given else "", timeout=timeout)

    monkeypatch.setattr(Leaky, "ask", blind)
    with pytest.raises(StoryFailed, match="the search in verifier does not find"):
        search(Leaky(root), root / "docker.log")


def test_what_a_container_is_given_and_what_it_answers_are_in_no_log_and_no_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker is a script here that notes its arguments and gives back what it was given."""
    docker = tmp_path / "docker"
    docker.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/noted\ncase $1 in ps) echo id;; exec) cat; exit $ENDS;; esac\n'
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ENDS", "0")
    log = io.StringIO()
    environment = Environment(tmp_path, project="p", files=(), env_file=None, log=log)
    assert environment.ask("verifier", "cat", given=PASSWORD) == PASSWORD.encode()
    assert "docker exec verifier cat" in log.getvalue()
    assert PASSWORD not in log.getvalue() + (tmp_path / "noted").read_text()
    assert "exec --interactive id cat" in (tmp_path / "noted").read_text()
    monkeypatch.setenv("ENDS", "3")
    with pytest.raises(DockerFailed, match="docker exec verifier cat ended with 3"):
        environment.ask("verifier", "cat", given=PASSWORD)


def test_what_is_searched_is_where_the_compose_files_have_it() -> None:
    plain, secured = (
        yaml.safe_load((ROOT / name).read_text("utf-8"))["services"]
        for name in ("docker-compose.yml", secrecy.COMPOSE_FILE)
    )
    assert f"secrets:{secrecy._MADE}" in secured["secrets"]["volumes"]
    assert f"secrets:{secrecy._MADE}:ro" in secured[TOOLS]["volumes"]
    assert f"data:{secrecy._SHARED}" in plain[TOOLS]["volumes"]
    for worker in secrecy._WORKERS:
        assert f"--work-dir {secrecy._WORK} " in plain[worker]["command"]
        assert f"data:{secrecy._SHARED}" in plain[worker]["volumes"]
    assert {*secrecy._SAID} <= {*plain, *secured}
    assert "PASSWORD" not in secrecy._DUMP
