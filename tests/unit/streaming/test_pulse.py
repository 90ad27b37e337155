"""A turning loop shows it to systemd and to probes; a hung one does not."""

import os
import socket
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from streaming.pulse import PULSE, Pulse


@pytest.fixture
def systemd(tmp_path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    listening.bind(str(tmp_path / "notify"))
    return listening


def heard(listening: socket.socket) -> list[str]:
    messages = []
    while True:
        try:
            messages.append(listening.recv(4096).decode())
        except BlockingIOError:
            return messages


def test_a_beat_touches_the_file_and_feeds_the_watchdog(tmp_path: Path, systemd: socket.socket) -> None:
    pulse = Pulse.of({PULSE: str(tmp_path / "pulse"), "NOTIFY_SOCKET": str(tmp_path / "notify")})
    pulse.beat(10.0)
    os.utime(tmp_path / "pulse", (0, 0))
    pulse.beat(11.0)
    assert (tmp_path / "pulse").stat().st_mtime > 0
    assert heard(systemd) == ["READY=1\nWATCHDOG=1"] * 2


def test_a_fast_loop_beats_once_a_second(tmp_path: Path, systemd: socket.socket) -> None:
    pulse = Pulse.of({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    for turn in range(40):
        pulse.beat(turn * 0.05)
    assert len(heard(systemd)) == 2


def test_an_abstract_socket_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as listening:
        listening.bind(f"\0tideover-{os.getpid()}")
        Pulse(file=None, notify_socket=f"@tideover-{os.getpid()}").beat(0.0)
        assert heard(listening) == ["READY=1\nWATCHDOG=1"]


def test_a_pulse_that_cannot_be_written_is_logged_once_and_harms_nothing(tmp_path: Path) -> None:
    pulse = Pulse.of({PULSE: str(tmp_path / "missing" / "pulse")})
    with capture_logs() as logs:
        pulse.beat(0.0)
        pulse.beat(2.0)
        (tmp_path / "missing").mkdir()
        pulse.beat(4.0)
    assert [each["log_level"] for each in logs] == ["warning"]
    assert (tmp_path / "missing" / "pulse").exists()


def test_without_a_wish_nothing_is_written() -> None:
    pulse = Pulse.of({PULSE: "", "NOTIFY_SOCKET": ""})
    pulse.beat(0.0)
    assert (pulse.file, pulse.notify_socket) == (None, None)
