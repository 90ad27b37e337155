"""Positions and samples of ends: the only bulk of the store."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import sqlalchemy as sa

from state.guards import KEPT_BATCHES, is_newer
from state.model import EndSample, Position, TopicPartition
from state.ring import Ring
from state.sql import bulk
from state.sql.columns import Instant, bind_instant
from state.sql.database import Part
from state.sql.schema import ends, positions

_KEY = 6
"""Columns of the positions' key."""

_ORDER = tuple(positions.primary_key.columns)[1:]

_OLDEST = """
    WITH RECURSIVE epochs (epoch) AS (
        SELECT max(epoch) FROM positions WHERE query = :query
        UNION ALL
        SELECT (SELECT max(p.epoch) FROM positions AS p WHERE p.query = :query AND p.epoch < epochs.epoch)
        FROM epochs WHERE epoch IS NOT NULL
    ), newest (epoch, batch, place) AS (
        SELECT epoch, (SELECT max(p.batch) FROM positions AS p WHERE p.query = :query AND p.epoch = epochs.epoch), 1
        FROM epochs WHERE epoch IS NOT NULL
        UNION ALL
        SELECT epoch,
               (SELECT max(p.batch) FROM positions AS p
                WHERE p.query = :query AND p.epoch = newest.epoch AND p.batch < newest.batch),
               place + 1
        FROM newest WHERE place < :kept AND batch IS NOT NULL
    ), oldest AS (
        SELECT epoch, batch FROM newest WHERE batch IS NOT NULL ORDER BY epoch DESC, batch DESC LIMIT 1 OFFSET :kept - 1
    )
    DELETE FROM positions WHERE query = :query
"""
"""Walks from epoch to epoch, and in each from batch to batch, by the key; ``SELECT DISTINCT`` would read every row
of the query."""

_FORGET_OLD = (
    sa.text(f"{_OLDEST} AND epoch < (SELECT epoch FROM oldest)"),
    sa.text(f"{_OLDEST} AND epoch = (SELECT epoch FROM oldest) AND batch < (SELECT batch FROM oldest)"),
)
"""Two, because an ``OR`` would read every row, too."""

_FORGET_FORMER = sa.text(
    "DELETE FROM positions WHERE query = :query AND epoch = :epoch AND batch > :batch AND tracked_at < :tracked_at"
).bindparams(sa.bindparam("tracked_at", type_=Instant()))


class Positions(Part):
    """Bulk in, and a few reads."""

    def save_positions(self, positions: Iterable[Position]) -> None:
        dialect = self._engines.dialect
        rows: dict[tuple[object, ...], tuple[object, ...]] = {}
        newest: dict[str, Position] = {}
        for position in positions:
            row = _position_row(position, dialect)
            rows[row[:_KEY]] = row
            if position.query not in newest or is_newer(position, newest[position.query]):
                newest[position.query] = position
        self._write_chunks(_POSITIONS, rows, None, lambda connection: _forget(connection, newest))

    def positions(self, query: str, *, batch: int | None = None) -> Sequence[Position]:
        found = sa.select(positions).where(positions.c.query == query).order_by(*_ORDER)
        return self._rows(Position, found if batch is None else found.where(positions.c.batch == batch))

    def save_ends(self, samples: Iterable[EndSample]) -> None:
        rows: dict[tuple[object, ...], tuple[object, ...]] = {}
        for sample in sorted(samples, key=lambda sample: sample.sampled_at):
            row = _end_row(sample, self._engines.dialect)
            rows[row[:3]] = row
        self._write_chunks(ends, rows, "sampled_at")

    def ends(self, cluster: str) -> dict[TopicPartition, EndSample]:
        order = (ends.c.topic, ends.c.partition)
        found = self._rows(EndSample, sa.select(ends).where(ends.c.cluster == cluster).order_by(*order))
        return {TopicPartition(sample.topic, sample.partition): sample for sample in found}

    def _write_chunks(
        self,
        table: sa.Table,
        rows: dict[tuple[object, ...], tuple[object, ...]],
        newer_by: str | None,
        at_last: Callable[[sa.Connection], None] = lambda _: None,
    ) -> None:
        """Sorted by key, so that two writers lock rows in the same order; ``at_last`` joins the last transaction."""
        ordered = [rows[key] for key in sorted(rows, key=str)]
        left = len(ordered)
        for chunk in bulk.chunks(ordered):
            left -= len(chunk)
            with self._writing() as connection:
                bulk.upsert(connection, table, chunk, newer_by)
                if not left:
                    at_last(connection)


_POSITIONS = positions


def _forget(connection: sa.Connection, newest: Mapping[str, Position]) -> None:
    """Drop what the newest position of each query leaves behind."""
    for query, position in sorted(newest.items()):
        former = {"epoch": position.epoch, "batch": position.batch, "tracked_at": position.tracked_at}
        connection.execute(_FORGET_FORMER, {"query": query, **former})
        for forget in _FORGET_OLD:
            connection.execute(forget, {"query": query, "kept": KEPT_BATCHES})


def _position_row(position: Position, dialect: str) -> tuple[object, ...]:
    """Driver values in the order of the table's columns."""
    return (
        position.query,
        position.epoch,
        position.batch,
        position.source,
        position.topic,
        position.partition,
        position.cluster,
        position.offset,
        position.timestamp_ms,
        position.leader_epoch,
        position.topic_id,
        Ring.of(position.ring).packed,
        position.dense,
        bind_instant(position.tracked_at, dialect),
    )


def _end_row(sample: EndSample, dialect: str) -> tuple[object, ...]:
    """Driver values in the order of the table's columns."""
    return (
        sample.cluster,
        sample.topic,
        sample.partition,
        sample.begin,
        sample.end,
        sample.newest_timestamp_ms,
        sample.leader_epoch,
        sample.topic_id,
        bind_instant(sample.sampled_at, dialect),
    )
