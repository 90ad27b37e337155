"""What a controller and a runner send each other about a drill.

Values in the JSON of intents and of their results, as in ``messages``.
"""

from state.messages import Message, PrepareRequest


class DrillRequest(Message):
    """Rehearse a failover: one batch on the standby, from a copy of the checkpoint, and nothing written to the sink."""

    prepare: PrepareRequest
    """``checkpoint`` is in use and runs on: what is copied ends at ``batch``, though later ones are committed by then.
    ``target`` is thrown away in the end."""
    cluster: str
    """The standby."""
    records: int
    """The batch reads at most this many from each source."""
    within_seconds: float
    """How long it may take to commit one batch with data."""


class DrillStep(Message):
    """One step that a runner took, one after the other."""

    name: str
    seconds: float
    text: str
    """What was done, in one sentence with its numbers."""


class DrillSource(Message):
    """What one Kafka source read in the batch of a drill, in the order of the checkpoint's offset log."""

    source: str
    start: dict[str, dict[str, int]] | None
    """Topic, partition: where Spark says that it began; None for the first batch of a fresh checkpoint."""
    end: dict[str, dict[str, int]]
    rows: int


class DrillReport(Message):
    steps: tuple[DrillStep, ...]
    batch: int
    """The batch that was committed in the copy."""
    sources: tuple[DrillSource, ...]
    files: int
    bytes: int
    """Size of the copy."""
