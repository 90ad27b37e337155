"""What was measured: the rows that went through a query, and what a move or a drill came to.

The rows are those that it read, that its sink got and that its watermark dropped; they are bounded in size. What an
operation came to is JSON in the store, on the API and in the evidence, and is kept as a plan is (``state.model.plan``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from state.json_object import SELDOM, WORDS, JsonObject, part

RECENT = 32
"""Batches that are kept one by one, the newest."""


class BatchRows(NamedTuple):
    """The rows of one batch, as Spark's ``StreamingQueryProgress`` reports them."""

    batch: int
    read: int
    written: int | None
    """None where the sink does not report it (``numOutputRows`` is -1, as with ``foreachBatch``)."""
    dropped: int
    """By the watermark (``numRowsDroppedByWatermark``, of all operators with state)."""


class RowCounts(NamedTuple):
    """Rows of one run since it started."""

    batches: int = 0
    """That read anything."""
    read: int = 0
    written: int | None = 0
    """None as soon as one batch did not report it."""
    dropped: int = 0
    first: BatchRows | None = None
    """The first batch that read anything."""
    recent: tuple[BatchRows, ...] = ()
    """The newest batches that read anything, oldest first."""

    def after(self, rows: BatchRows) -> "RowCounts":
        """The counts with one more batch."""
        written = None if self.written is None or rows.written is None else self.written + rows.written
        counted = self._replace(written=written, dropped=self.dropped + rows.dropped)
        if not rows.read:
            return counted
        return counted._replace(
            batches=self.batches + 1,
            read=self.read + rows.read,
            first=self.first or rows,
            recent=(*self.recent, rows)[-RECENT:],
        )

    @property
    def usual(self) -> int | None:
        """Rows that a batch usually reads: the median of the newest ones; None before the first."""
        return round(median(each.read for each in self.recent)) if self.recent else None


NO_ROWS = RowCounts()


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSums(JsonObject):
    """Rows of all runs together; ``written`` is None where the sink does not report it."""

    batches: int = 0
    read: int = 0
    written: int | None = None
    dropped: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_run(cls, rows: RowCounts) -> "RowSums":
        return cls(batches=rows.batches, read=rows.read, written=rows.written, dropped=rows.dropped)

    def plus(self, other: "RowSums") -> "RowSums":
        """Both together."""
        unknown = self.written is None or other.written is None
        return RowSums(
            batches=self.batches + other.batches,
            read=self.read + other.read,
            written=None if unknown else (self.written or 0) + (other.written or 0),
            dropped=self.dropped + other.dropped,
        )


_FIRST: dict[str, Any] = {"read": lambda row: BatchRows(**row), "write": BatchRows._asdict}


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsSince(JsonObject):
    """What went through a query since a move. A run that is started again counts from 0."""

    run: str | None = None
    """When the run started that reported last."""
    first: BatchRows | None = field(default=None, metadata=_FIRST)
    """The first batch that read anything: what a move delays is late in that one."""
    earlier: RowSums | None = field(default=None, metadata=part(RowSums))
    """Of the runs before that one; None where there was none."""
    total: RowSums = field(default_factory=RowSums, metadata=part(RowSums))
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class DrillResult(JsonObject):
    """What a drill came to."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """By step, in their order."""
    batch: int | None = None
    rows: int | None = None
    rows_expected: int | None = None
    first_offsets: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    """Source, topic, partition: where its one batch began."""
    files: int | None = None
    bytes: int | None = None
    """Copied."""
    not_proven: tuple[str, ...] = field(default=(), metadata=WORDS)
    """What a drill cannot show, in sentences."""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured(JsonObject):
    """What an operation came to, as far as it is known; None: unknown."""

    detect_seconds: float | None = field(default=None, metadata=SELDOM)
    switch_seconds: float | None = None
    """From the decision to the first commit on the target."""
    first_commit_at: str | None = None
    replay_records: int | None = None
    replay_later_records: int | None = field(default=None, metadata=SELDOM)
    """Of the announced records, how many have come and were read again."""
    exposure_records: int | None = None
    dropped_late_rows: int | None = None
    batch_went_on: bool | None = None
    """Whether the batch under way continued in its run; None where the plan did not say that it would."""
    possible_replay_records: int | None = None
    """What the sink may have got twice of that batch."""
    sink_took: bool | None = None
    """Whether the sink holds the first batch that was committed after the move."""
    rows_since: RowsSince | None = field(default=None, metadata=part(RowsSince) | SELDOM)
    drill: DrillResult | None = field(default=None, metadata=part(DrillResult) | SELDOM)
    failures: int | None = field(default=None, metadata=SELDOM)
    """How often driving the operation on has failed; kept for the next leader."""
    more: Mapping[str, Any] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        """The numbers of a move, as the command line and the API have them."""
        numbers: dict[str, Any] = {
            "detect_seconds": self.detect_seconds,
            "switch_seconds": self.switch_seconds,
            "first_commit_at": self.first_commit_at,
            "replay_records": self.replay_records,
            "replay_later_records": self.replay_later_records,
            "exposure_records": self.exposure_records,
            "dropped_late_rows": self.dropped_late_rows,
        }
        if self.batch_went_on is not None:
            numbers |= {"batch_went_on": self.batch_went_on, "possible_replay_records": self.possible_replay_records}
        return numbers

    def documented(self) -> dict[str, Any]:
        """The JSON object but for the rows, which a document has beside it."""
        return {key: value for key, value in self.as_json().items() if key != "rows_since"}


NOTHING = Measured()
