"""Receivers of notices, and lines of the history of what they report."""

import threading
from dataclasses import dataclass, field
from typing import Any

from orchestrator.notify.incidents import Notice
from state.model.cluster_status import Verdict
from state.model.entities import Event
from state.settings.keys import NotifyTarget
from tests.contract import samples


@dataclass
class Receiver:
    """Takes notices, or says why not, or hangs until it is let go."""

    error: str = ""
    taken: list[Notice] = field(default_factory=list)
    tries: int = 0
    hold: threading.Event | None = None

    def send(self, notice: Notice) -> str:
        self.tries += 1
        if self.hold is not None:
            assert self.hold.wait(60)
        if not self.error:
            self.taken.append(notice)
        return self.error

    @property
    def titles(self) -> list[str]:
        return [notice.title for notice in self.taken]


def target(**change: Any) -> NotifyTarget:
    return NotifyTarget.model_validate({"name": "oncall", "url": "json://localhost", **change})


def verdict(word: Verdict, sequence: int = 1, cluster: str = "east") -> Event:
    return samples.event(
        kind="verdict", operation=None, query=None, sequence=sequence, text=f"{cluster} is {word}: because",
        detail={"cluster": cluster, "verdict": word.value},
    )  # fmt: skip


def readiness(*, ready: bool | None, query: str = "revenue", sequence: int = 1) -> Event:
    return samples.event(kind="readiness", operation=None, query=query, sequence=sequence, detail={"ready": ready})
