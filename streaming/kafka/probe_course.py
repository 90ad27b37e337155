"""How far one look at a cluster has come: which layers it passed, how fast, and how much time is left."""

import time
from dataclasses import dataclass, field

from state.model.cluster_status import Layer
from streaming.clocks import Deadline
from streaming.kafka.connections import Milestones
from streaming.probe.probe_result import LayerPassed


@dataclass(slots=True)
class Course:
    """How far one look has come."""

    began: float
    deadline: Deadline
    cluster_id: str | None = None
    passed: list[LayerPassed] = field(default_factory=list)
    delayed: float = 0.0
    """Seconds in which connections waited for their turn; they are not of the look's time."""

    def allow(self, seconds: float) -> None:
        """Move the deadline by what a wait for turns took."""
        self.delayed += seconds
        self.deadline = Deadline(self.deadline.at + seconds)

    def connected(self, stones: Milestones | None) -> float:
        """Note the layers that a connection reached; returns when the last of them was."""
        if stones is None:
            return self.began
        kept, last = stones.began < self.began, stones.began
        for layer, when in ((Layer.TCP, stones.tcp), (Layer.SECURITY, stones.ready)):
            if when is not None:
                self.passed.append(LayerPassed(layer=layer, ms=0.0 if kept else (when - last) * 1000, kept=kept))
                last = when
        return self.began if kept else last

    def answered(self, layer: Layer, since: float, *, kept: bool = False) -> None:
        self.passed.append(LayerPassed(layer=layer, ms=(time.monotonic() - since) * 1000, kept=kept))
