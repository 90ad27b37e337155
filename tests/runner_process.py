"""A runner in a process of its own, for tests that start, stop and kill it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from state.errors import TideoverError
from state.settings.keys import Tideover
from state.store.sql.migrate import open_store
from streaming.logging_setup import set_up_logs
from streaming.spark.runner.service import run_runner
from tests.waiting import PROCESS_SECONDS


class RunnerProcess:
    """``python -m tests.runner_process`` with a settings file; its log is kept beside it."""

    def __init__(self, settings: Mapping[str, Any], folder: Path, *, name: str = "a") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "settings.json"
        path.write_text(json.dumps(settings), encoding="utf-8")
        self._log = folder / f"runner-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "tests.runner_process", str(path), name]
        with self._log.open("wb") as log:
            root = Path(__file__).resolve().parents[1]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=root)

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait(self, seconds: float) -> int:
        return self._process.wait(seconds)

    def terminate(self) -> int:
        """Order it to stop, and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PROCESS_SECONDS)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PROCESS_SECONDS)

    def until(self, what: str, holds: Callable[[], object], seconds: float = 240.0) -> None:
        """Wait until something holds; shows the log when it never does, or when the process ends before."""
        deadline = time.monotonic() + seconds
        while not holds():
            alive = self._process.poll() is None
            if not alive or time.monotonic() > deadline:
                raise AssertionError(f"{what} (alive: {alive}):\n{self.log()[-6000:]}")
            time.sleep(0.02)


def main() -> int:
    settings = Tideover.model_validate_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    store = open_store(settings.store.get_secret_value())
    try:
        set_up_logs()
        return run_runner(settings, sys.argv[2], store=store, base=Path(sys.argv[1]).parent)
    except TideoverError as error:
        sys.stderr.write(f"{error.kind}: {error}\n{error.hint}\n")
        return 2
    finally:
        store.close()


if __name__ == "__main__":
    sys.exit(main())
