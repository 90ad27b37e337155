"""Receivers of notices, and lines of the history that they are told of."""

from typing import Any

from state.model.cluster_status import Verdict
from state.model.entities import Event
from state.settings.keys import NotifyTarget
from tests.contract import samples


def target(**change: Any) -> NotifyTarget:
    return NotifyTarget.model_validate({"name": "oncall", "url": "json://localhost", **change})


def verdict(word: Verdict, sequence: int = 1, cluster: str = "east") -> Event:
    return samples.event(
        kind="verdict", operation=None, query=None, sequence=sequence, text=f"{cluster} is {word}: because",
        detail={"cluster": cluster, "verdict": word.value},
    )  # fmt: skip


def readiness(*, ready: bool | None, query: str = "revenue", sequence: int = 1) -> Event:
    return samples.event(kind="readiness", operation=None, query=query, sequence=sequence, detail={"ready": ready})
