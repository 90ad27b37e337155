"""Whether a secret that is somewhere is found there, and whether a search that could not find it says so."""

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos import leak_check, secret_scanner, stage
from chaos.docker import Environment
from chaos.errors import DockerFailed, ScenarioFailed
from chaos.faults import WORKERS
from chaos.leak_check import Place, leaks_in, search, searched, secrets_of
from chaos.play import WaitLimits
from chaos.scenario_outcome import Outcome, judge
from chaos.scenarios import SECURED
from chaos.watcher import TOOLS
from tests.unit.chaos.test_scenario_outcome import MOVED, scenario

ROOT = Path(__file__).resolve().parents[3]
FILES = {
    "west/tideover.password": "moat-and-drawbridge-51b7\n",
    "east/tideover.key": "-----BEGIN PRIVATE KEY-----\nMIGHAgEAportcullis\nK9uw\n-----END PRIVATE KEY-----\n",
}
SECRETS = secrets_of(FILES)
PASSWORD = SECRETS["west/tideover.password"]
STORE = "-gatehouse_and_barbican"
SCRIPT = Path(secret_scanner.__file__).read_text(encoding="utf-8")


def test_a_secret_is_a_password_or_the_first_line_of_a_key() -> None:
    assert SECRETS == {"west/tideover.password": "moat-and-drawbridge-51b7", "east/tideover.key": "MIGHAgEAportcullis"}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({**FILES, "west/admin.password": "\n"}, "west/admin.password contains no secret"),
        ({**FILES, "west/admin.password": "short\n"}, "west/admin.password contains no secret"),
        ({"east/tideover.key": FILES["east/tideover.key"]}, "no file \\*.password was made"),
        ({}, "no file \\*.password was made"),
    ],
)
def test_without_a_secret_that_can_be_searched_for_there_is_no_search(files: dict[str, str], why: str) -> None:
    with pytest.raises(ScenarioFailed, match=why):
        secrets_of(files)


@pytest.mark.parametrize("text", [f"password={PASSWORD};".encode(), f"\\\\x00{PASSWORD.encode().hex()}00".encode()])
def test_a_found_secret_is_named_with_its_place_also_in_hexadecimal(text: bytes) -> None:
    clean = Place("the log of west-1", b"started")
    assert list(leaks_in(SECRETS, FILES, [clean, Place("the store", text)])) == [
        "west/tideover.password was found in the store"
    ]  # fmt: skip
    assert not list(leaks_in(SECRETS, FILES, [clean]))


def test_a_place_in_which_something_known_does_not_stand_was_not_read() -> None:
    with pytest.raises(ScenarioFailed, match="the store was not read"):
        list(leaks_in(SECRETS, FILES, [Place("the store", b"", known="COPY")]))


def test_a_search_that_does_not_find_a_secret_in_its_own_file_is_none() -> None:
    with pytest.raises(ScenarioFailed, match=r"does not find west/tideover.password in its own source"):
        list(leaks_in(SECRETS, {**FILES, "west/tideover.password": "another"}, []))


class Leaky(Environment):
    """A secured environment of one worker, on folders here; what its places hold is given to it."""

    def __init__(self, root: Path, **held: str) -> None:
        self.root = root
        self.held = held
        self.requested: list[tuple[str, ...]] = []
        self.thawed = False
        self.password = STORE

    def thaw(self) -> None:
        self.thawed = True

    def services(self) -> list[str]:
        return ["controller-one", "postgres", "runner-a", "secrets", "verifier", "west-1", "worker-1", "worker-2"]

    def running(self) -> list[str]:
        return ["controller-one", "postgres", "verifier", "worker-2"]

    def log_of(self, service: str) -> str:
        usual = {"secrets": "credentials of east", "west-1": "(kafka.server.KafkaRaftServer)", "runner-a": "warmed up"}
        return usual.get(service, "") + self.held.get(f"log of {service}", "")

    def run_in(self, service: str, *command: str, given: str = "", timeout: float = 0) -> bytes:
        assert self.thawed
        self.requested.append((service, *command))
        match command:
            case ["python", "-c", text, *words]:
                assert text == SCRIPT
                words = [f"{self.root}{word}" if word.startswith("/") else word for word in words]
                return secret_scanner.answer(words, given).replace(str(self.root), "").encode()
            case ["printenv", "TIDEOVER_STORE"]:
                return f"postgresql+psycopg://tideover:{self.password}@postgres/tideover\n".encode()
            case ["sh", "-c", words] if "cmdline" in words:
                return f"sh -c {words} ".encode() + self.held.get(f"arguments of {service}", "").encode()
            case ["sh", "-c", _]:
                return f"protocol: SASL_SSL {self.held.get('config show', '')}".encode()
            case _:
                assert (service, command[0]) == ("postgres", "pg_dump")
                return f"COPY public.assignments (query) {self.held.get('store', '')}".encode()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What the volumes of an environment hold after a test run."""
    for name, text in FILES.items():
        lay(tmp_path / "var/lib/lab/secrets" / name, text)
    lay(tmp_path / "var/lib/tideover/checkpoints/q/offsets/0", "{}")
    lay(tmp_path / "tmp/work/app-1/0/stderr", "INFO")
    lay(tmp_path / "docker.log", "$ docker exec x tideover list")
    return tmp_path


def lay(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_where_no_secret_is_none_is_found_and_none_was_an_argument(root: Path) -> None:
    environment = Leaky(root)
    assert list(search(environment, root / "docker.log")) == []
    said = " ".join(word for command in environment.requested for word in command)
    assert not any(secret in said for secret in (*SECRETS.values(), STORE))


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
def test_a_secret_that_a_part_has_printed_is_found(root: Path, held: str, place: str) -> None:
    environment = Leaky(root, **{held: f'password="{PASSWORD}";'})
    assert list(search(environment, root / "docker.log")) == [f"west/tideover.password was found in {place}"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("var/lib/tideover/checkpoints/q/metadata", "/var/lib/tideover/checkpoints/q/metadata of verifier"),
        ("tmp/work/app-1/0/stdout", "/tmp/work/app-1/0/stdout of worker-1 or worker-2"),
        ("docker.log", "what verbs said"),
    ],
)
def test_a_secret_that_was_written_to_a_file_is_found(root: Path, path: str, place: str) -> None:
    lay(root / path, f"tideover list {SECRETS['east/tideover.key']}")
    assert list(search(Leaky(root), root / "docker.log")) == [f"east/tideover.key was found in {place}"]


def test_the_password_of_the_store_is_searched_for_and_has_to_be_one(root: Path) -> None:
    leaky = Leaky(root, **{"log of controller-one": f"cannot connect to postgresql://tideover:{STORE}@postgres"})
    assert list(search(leaky, root / "docker.log")) == ["the store's password was found in the log of controller-one"]
    leaky.password = "tideover"
    with pytest.raises(ScenarioFailed, match="the store's password contains no secret"):
        list(search(leaky, root / "docker.log"))


def test_a_leak_is_a_problem_and_so_is_a_search_that_failed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = scenario("kill-cluster")
    assert judge(reported, searched(MOVED, Leaky(root), root / "docker.log")) == []
    leaky = Leaky(root, store=PASSWORD)
    leak = "west/tideover.password was found in the store"
    assert judge(reported, searched(MOVED, leaky, root / "docker.log")) == [leak]
    assert judge(reported, searched(replace(MOVED, broke="no end"), leaky, root / "docker.log")) == ["no end", leak]

    (root / "docker.log").write_text("")
    found, failed = judge(reported, searched(MOVED, leaky, root / "docker.log"))
    assert found == leak
    assert failed.startswith("not everything could be searched for secrets: what verbs said was not read:")


def test_secrets_given_to_a_container_are_in_no_log_and_no_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker is a script here that notes its arguments and gives back what it was given."""
    docker = tmp_path / "docker"
    docker.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/noted\n'
        'case $1 in compose) echo "$GIVEN_TO_COMPOSE";; ps) echo id;; exec) cat; exit $ENDS;; esac\n'
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ENDS", "0")
    log = io.StringIO()
    environment = Environment(
        tmp_path, project="p", files=(), env_file=None, log=log, settings={"GIVEN_TO_COMPOSE": STORE}
    )
    assert environment.compose("up") == f"{STORE}\n"
    assert environment.run_in("verifier", "cat", given=PASSWORD) == PASSWORD.encode()
    assert "docker exec verifier cat" in log.getvalue()
    assert PASSWORD not in log.getvalue() + (tmp_path / "noted").read_text()
    assert "exec --interactive id cat" in (tmp_path / "noted").read_text()
    monkeypatch.setenv("ENDS", "3")
    with pytest.raises(DockerFailed, match="docker exec verifier cat ended with 3"):
        environment.run_in("verifier", "cat", given=PASSWORD)


def test_the_leak_check_searches_the_volumes_of_the_compose_files() -> None:
    plain, secured = (
        yaml.safe_load((ROOT / name).read_text("utf-8"))["services"] for name in ("docker-compose.yml", SECURED)
    )
    assert f"secrets:{leak_check._MADE}" in secured["secrets"]["volumes"]
    assert f"secrets:{leak_check._MADE}:ro" in secured[TOOLS]["volumes"]
    assert f"data:{leak_check._SHARED}" in plain[TOOLS]["volumes"]
    for worker in WORKERS:
        assert f"--work-dir {leak_check._WORK} " in plain[worker]["command"]
        assert f"data:{leak_check._SHARED}" in plain[worker]["volumes"]
    assert {*leak_check._SAID} <= {*plain, *secured}
    used = f"${{{leak_check.STORE_PASSWORD}:-"
    assert used in plain["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert used in plain[TOOLS]["environment"][leak_check._ADDRESS[1]]
    assert "PASSWORD" not in leak_check._DUMP


@pytest.mark.parametrize(("files", "leaks"), [((SECURED,), ("one stands here",)), ((), None)])
def test_a_secured_environment_is_searched_after_each_scenario_and_at_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], leaks: tuple[str, ...] | None
) -> None:
    done: list[str] = []

    class Bare(Environment):
        def __init__(self, _root: Path, *, settings: dict[str, str], **_: Any) -> None:
            assert [*settings] == ([leak_check.STORE_PASSWORD] if files else [])
            assert all(len(password) > 20 for password in settings.values())

        def down(self) -> list[str]:
            return []

        def save_logs(self, folder: Path) -> None:
            done.append("logs")

    def find(_: Environment, log: Path) -> list[str]:
        assert log.is_file()
        done.append("searched")
        return ["one stands here"]

    def play(_: object, name: str) -> Outcome:
        done.append("played")
        return replace(MOVED, environment=name)

    monkeypatch.setattr(stage, "Environment", Bare)
    monkeypatch.setattr("chaos.play.ScenarioRun.play", play)
    monkeypatch.setattr(leak_check, "search", find)
    place = stage.Stage(
        root=tmp_path, folder=tmp_path, env_file=None, files=files, say=lambda _: None, patience=WaitLimits()
    )
    played = list(place.play([scenario("kill-cluster")]))
    assert [outcome.leaks for _, outcome in played] == [leaks]
    assert done == ["played", *(["searched"] if files else []), "logs"]
