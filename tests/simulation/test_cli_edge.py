"""The command line's outer edge: closed and full streams, readers that go away, arguments that are no text, defects."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli import main
from orchestrator.cli.context import Context
from tests.ports import free_base_port
from tests.simulation.test_cli import CONFIG, Terminal, run, run_json

ROOT = Path(__file__).resolve().parents[2]


def shell(folder: Path, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which ``$TIDEOVER`` is the program."""
    program = f"{sys.executable} -m orchestrator"
    return subprocess.run(
        ["bash", "-c", command.replace("$TIDEOVER", program)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_reader_that_goes_away_does_not_change_the_exit_code(folder: Path, output: str) -> None:
    done = shell(folder, f"$TIDEOVER list -o {output} | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("0\n", "")
    failed = shell(folder, f"$TIDEOVER show nope -o {output} 2>&1 | true; echo ${{PIPESTATUS[0]}}")
    assert (failed.stdout, failed.stderr) == ("2\n", "")


def test_closed_streams_are_no_defect(folder: Path) -> None:
    assert shell(folder, "$TIDEOVER list >&-").returncode == 0
    assert shell(folder, "$TIDEOVER reconcile revenue <&-").returncode == 0
    unattended = shell(folder, "$TIDEOVER failover revenue <&-")
    assert unattended.returncode == 2
    assert unattended.stderr.startswith("tideover: without a terminal, failover needs --yes")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("output", ["table", "json"])
def test_output_that_cannot_be_written_is_a_failure(folder: Path, output: str) -> None:
    full = shell(folder, f"$TIDEOVER list -o {output} >/dev/full", PYTHONUNBUFFERED="")
    assert full.returncode == 2
    assert full.stderr == "tideover: the operating system reports: [Errno 28] No space left on device\n"


def test_letters_that_the_terminal_cannot_show_are_written_out(folder: Path) -> None:
    plain = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert "\\u017elu\\u0165" in shell(folder, "$TIDEOVER show žluť", PYTHONIOENCODING="ascii").stderr
    answer = json.loads(shell(folder, "$TIDEOVER show žluť -o json", **plain).stdout)
    assert answer["error"]["text"] == "query 'žluť' is not declared"


def test_arguments_that_are_no_text_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = run_json(capsys, "failover", "revenue", "--to", "west", "--yes", "--reason", "\udcff")
    assert code == 2
    assert isinstance(error, dict)
    assert error["error"]["text"] == "'\\udcff' is not valid UTF-8 text"


def test_a_defect_is_no_refusal(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Context) -> None:
        raise ZeroDivisionError("by nobody")

    monkeypatch.setattr(Context, "store", property(broken))
    code, out, err = run(capsys, "list", "-o", "json")
    assert code == 2
    assert json.loads(out)["error"]["kind"] == "defect"
    assert "Traceback" in err


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["list", "-o", "yaml", "-o", "json"], "json"),
        (["list", "-ojson"], "json"),
        (["list", "--output=yaml"], "yaml"),
        (["show", "--", "-o", "json"], "table"),
    ],
)
def test_an_error_comes_in_the_requested_form(
    capsys: pytest.CaptureFixture[str], arguments: list[str], output: str
) -> None:
    code, out, err = run(capsys, "-c", "nowhere.yaml", *arguments)
    assert code == 2
    assert out.startswith({"json": "{", "yaml": "error:\n  kind: ", "table": ""}[output])
    assert (err == "") is (output != "table")


def test_help_that_was_not_requested_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["plan"]):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("Usage: tideover")


def test_a_wait_without_an_end_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "offsets", "--cluster", "west", "--topic", "orders", "--latest", "--timeout", "nan")
    assert code == 2
    assert "'nan' is not a number of seconds" in err


def test_a_question_left_without_an_answer_moves_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    code, error = run_json(capsys, "failover", "revenue")
    assert code == 1
    assert isinstance(error, dict)
    assert error["error"]["text"] == "the question was not answered: nothing was changed"


def test_an_interrupted_verb_says_so(folder: Path) -> None:
    """A cluster that takes connections and never answers keeps the verb waiting until it is interrupted."""
    arguments = ["offsets", "--cluster", "west", "--topic", "orders", "--latest", "--timeout", "50", "-o", "json"]
    port = free_base_port()
    with socket.create_server(("127.0.0.1", port)) as silent:
        (folder / "tideover.yaml").write_text(CONFIG.replace("localhost:2]", f"127.0.0.1:{port}]"), encoding="utf-8")
        requesting = subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        silent.settimeout(120)
        with silent.accept()[0]:  # it has begun its request
            requesting.send_signal(signal.SIGINT)
            out, _ = requesting.communicate(timeout=120)
    assert requesting.returncode == 3
    assert json.loads(out)["error"]["kind"] == "interrupted"


def test_main_returns_plain_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
