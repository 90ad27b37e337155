"""``watch`` as people, programs and terminals see it: in a process of its own, from its first look to its end."""

import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest

from orchestrator.cli.context import Context as CliWorld
from orchestrator.cli.inspect import watch
from orchestrator.cli.streaming_output import until_enough
from orchestrator.decide.desk.status import Status
from orchestrator.shapes.status import status_json
from state.errors import StoreUnavailable
from state.store.sql.migrate import open_store
from tests.contract import samples
from tests.simulation.test_cli import run_json
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.world import World

ROOT = Path(__file__).resolve().parents[2]
WAIT = 120.0
Process = subprocess.Popen[bytes]


@contextmanager
def watching(folder: Path, *arguments: str, stdout: int = subprocess.PIPE, term: str = "xterm") -> Iterator[Process]:
    inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", "watch", "--interval", "100ms", *arguments],
        cwd=folder, env={**inherited, "PYTHONPATH": str(ROOT), "TERM": term}, stdout=stdout, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def ended(process: Process) -> tuple[int, bytes]:
    assert process.stderr is not None
    code = process.wait(WAIT)
    return code, process.stderr.read()


def note(folder: Path, text: str) -> None:
    store = open_store(f"sqlite:///{folder}/t.db")
    store.note(samples.event(operation=None, text=text))
    store.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_gets_one_line_a_change(folder: Path, number: signal.Signals) -> None:
    note(folder, "one")
    with watching(folder, "-o", "json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert [event["text"] for event in first["events"]] == ["one"]
        time.sleep(0.5)
        note(folder, "two")
        second = json.loads(process.stdout.readline())
        assert [event["text"] for event in second["events"]] == ["one", "two"]
        process.send_signal(number)
        assert process.stdout.read() == b""
        assert ended(process) == (0, b"")


def test_a_reader_that_has_enough_ends_it_also_while_nothing_changes(folder: Path) -> None:
    note(folder, "one")
    with watching(folder) as process:
        assert process.stdout is not None
        assert b"NO CONTROLLER LEADS" in process.stdout.readline()
        process.stdout.close()
        assert ended(process) == (0, b"")


def read_until(terminal: int, wanted: bytes, before: bytes = b"") -> bytes:
    seen, deadline = before, time.monotonic() + WAIT
    while wanted not in seen:
        readable, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert readable, seen
        seen += os.read(terminal, 65536)
    return seen


def test_a_terminal_is_redrawn_in_place_and_fits(folder: Path) -> None:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    note(folder, "one " + "x" * 200)
    with watching(folder, stdout=theirs) as process:
        os.close(theirs)
        seen = read_until(ours, b"held       revenue  one xx")
        note(folder, "two")
        seen = read_until(ours, b"held       revenue  two", seen)
        process.send_signal(signal.SIGINT)
        assert ended(process) == (0, b"")
    os.close(ours)
    text = seen.decode()
    assert text.count("\x1b[2J") == 1
    frames = text.split("\x1b[H")[1:]
    assert len(frames) >= 2
    for frame in frames[:-1]:
        lines = frame.replace("\x1b[K", "").replace("\x1b[J", "").splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 60


def test_a_terminal_that_cannot_be_redrawn_gets_the_picture_at_each_change(folder: Path) -> None:
    ours, theirs = pty.openpty()
    note(folder, "one")
    with watching(folder, stdout=theirs, term="dumb") as process:
        os.close(theirs)
        seen = read_until(ours, b"held       revenue  one")
        time.sleep(0.5)
        note(folder, "two")
        seen = read_until(ours, b"held       revenue  two", seen)
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, b"")
    os.close(ours)
    assert b"\x1b" not in seen
    assert seen.count(b"QUERIES") == 2


def test_a_store_that_is_away_from_the_beginning_is_said_once_and_waited_for(folder: Path) -> None:
    config = folder / "tideover.yaml"
    away = config.read_text(encoding="utf-8").replace("sqlite:///t.db", "postgresql+psycopg://x@127.0.0.1:22599/x")
    config.write_text(away, encoding="utf-8")
    with watching(folder, "-o", "json") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"the store does not answer; waiting for it, queries run on: ")
        time.sleep(0.5)
        process.terminate()
        assert ended(process) == (0, b"")


@pytest.mark.parametrize("interval", ["nonsense", "10ms", "2h"])
def test_an_interval_that_makes_no_sense_is_bad_usage(
    folder: Path, interval: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = run_json(capsys, "watch", "--interval", interval)
    assert code == 2
    assert isinstance(error, dict)
    assert "interval" in error["error"]["text"]


# -- in this process -------------------------------------------------------------------------------------------------
class Enough(Exception):
    """The test has seen what it wanted."""


class Clock:
    """Ends the watch after so many looks, and does something before each."""

    def __init__(self, *acts: Callable[[], None]) -> None:
        self._acts = list(acts)

    def monotonic(self) -> float:
        return 0.0

    def wait(self, seconds: float) -> None:
        if not self._acts:
            raise Enough
        self._acts.pop(0)()


class Shown:
    """What a display was given to show."""

    def __init__(self) -> None:
        self.seen: list[Status | str] = []

    def show(self, situation: Status) -> None:
        self.seen.append(situation)

    def store_is_away(self, why: str) -> None:
        self.seen.append(why)


class Gone:
    """What is to be collected."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_python_drops_ends_it_at_the_next_wait(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped, before = list[object](), signal.getsignal(number)
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: dropped.append(raised.exc_type))
    clock = Clock(lambda: None)
    with until_enough(clock) as waiting:  # type: ignore[arg-type] # a twin
        gone = Gone()
        reported = weakref.ref(gone, lambda _: signal.raise_signal(number))
        del gone
        assert reported() is None
        waiting.wait(3600.0)
        dropped.append("and it waited")
    assert dropped == [KeyboardInterrupt]
    assert signal.getsignal(number) is before


def test_a_store_that_goes_away_and_comes_back_is_shown_so(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, display = CliWorld(config=None), Shown()

    def leave() -> None:
        monkeypatch.setattr(given.store, "assignments", lambda: (_ for _ in ()).throw(StoreUnavailable("locked")))

    with pytest.raises(Enough):
        watch.follow_status(given, display, Clock(leave, monkeypatch.undo), 0.1)  # type: ignore[arg-type] # a twin
    first, away, last = display.seen
    assert isinstance(first, Status)
    assert away == "locked"
    assert isinstance(last, Status)
    assert [query.query for query in last.queries] == ["revenue"]
    given.close()


def test_a_terminal_keeps_the_last_picture_while_the_store_is_away(
    world: World, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    terminal, given, display = watch.Terminal(), CliWorld(config=None), Shown()
    terminal.store_is_away("locked")
    assert "THE STORE DOES NOT ANSWER; waiting for it, queries run on: locked" in capsys.readouterr().out
    with pytest.raises(Enough):
        watch.follow_status(given, display, Clock(), 0.1)  # type: ignore[arg-type] # a twin
    (situation,) = display.seen
    assert isinstance(situation, Status)
    terminal.show(situation)
    terminal.store_is_away("locked")
    before, _, after = capsys.readouterr().out.partition("THE STORE DOES NOT ANSWER: locked; last status, from ")
    assert "revenue  east" in before
    assert "revenue  east" in after
    given.close()


def test_the_page_for_programs_names_every_key_of_a_situation(world: World) -> None:
    from tests.unit.orchestrator.decide.desk.test_status import full  # a situation with one of each

    value = status_json(full())
    assert keys(value) == said("`watch -o json`: one object a line")
    assert keys(value["clusters"]) == said("`clusters` has")
    assert keys(value["queries"]) == said("Each of `queries`")
    assert keys(value["operations"]) == said("Each of `operations`, which")
    assert keys(value["cooldowns"]) == said("each of `cooldowns`")
    assert keys(value["leader"]) == {"name", "holder", "term"}
