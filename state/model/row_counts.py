"""What went through a query: rows read, rows that its sink got, rows that its watermark dropped. Bounded in size."""

from statistics import median
from typing import NamedTuple

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
