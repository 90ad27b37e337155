"""A controller as it is run: it reports a cluster that is down, and one that comes after it does not repeat that."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store, upgrade_store
from tests.ports import free_port
from tests.prometheus_tools import ROOT
from tests.served import CONFIG
from tests.waiting import PROCESS_SECONDS, until

pytestmark = pytest.mark.real
NOTIFY = """
notify:
  targets:
    - {name: hook, url: "env:HOOK", kinds: {readiness: off}}
    - {name: nobody, url: "env:NOBODY"}
"""


@pytest.fixture
def hook() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    sent: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, sent
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def controlling(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    urls = {"HOOK": f"json://127.0.0.1:{port}/", "NOBODY": f"json://127.0.0.1:{free_port()}/"}
    command = [sys.executable, "-m", "orchestrator", "-c", str(folder / "tideover.yaml"), "control", "--name", "one"]
    with (folder / "controller.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env={"PATH": "/usr/bin:/bin", **urls})
    try:
        yield process
    finally:
        process.kill()
        process.wait(PROCESS_SECONDS)


def test_a_down_cluster_is_notified_once_by_whichever_controller_leads(
    tmp_path: Path, hook: tuple[int, list[dict[str, Any]]]
) -> None:
    (tmp_path / "tideover.yaml").write_text(CONFIG + NOTIFY, encoding="utf-8")
    url = f"sqlite:///{tmp_path}/t.db"
    upgrade_store(url)
    store = open_store(url)
    port, sent = hook
    with controlling(tmp_path, port) as first:
        until(
            lambda: (
                {each["title"] for each in sent} == {"[CRITICAL opened] east is DOWN", "[CRITICAL opened] west is DOWN"}
            )
        )
        until(lambda: any(each.failures for each in store.notice_cursors()))
        failing = {each.target: each.failing_since is not None for each in store.notice_cursors()}
        assert failing == {"hook": False, "nobody": True}
        until(lambda: len(reported_to(store, "hook")) == 2)
        first.kill()
    with controlling(tmp_path, port) as second:
        lines = len(store.history())
        until(lambda: len(store.history()) > lines or second.poll() is not None)
        until(lambda: store.leader("controller") is not None)
        second.terminate()
        assert second.wait(PROCESS_SECONDS) == 0
    store.close()
    assert len(sent) == 2
    assert "a receiver does not take notices" in (tmp_path / "controller.log").read_text(encoding="utf-8")


def reported_to(store: ControllerStore, target: str) -> dict[str, str]:
    """The incidents that a receiver knows of."""
    return next(dict(each.incidents) for each in store.notice_cursors() if each.target == target)
