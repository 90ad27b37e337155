"""Positions and samples of ends: the only bulk of the store."""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from state.guards import KEPT_BATCHES
from state.model import EndSample, Position, TopicPartition
from state.sql import bulk
from state.sql.columns import Instant, bind_instant, pack_ring
from state.sql.database import Part
from state.sql.schema import ends, positions

_ORDER = (positions.c.batch, positions.c.source, positions.c.topic, positions.c.partition)

_FORGET_OLD = sa.text("""
    WITH RECURSIVE newest (batch, place) AS (
        SELECT max(batch), 1 FROM positions WHERE query = :query
        UNION ALL
        SELECT (SELECT max(positions.batch) FROM positions WHERE query = :query AND positions.batch < newest.batch),
               place + 1
        FROM newest WHERE place < :kept AND newest.batch IS NOT NULL
    )
    DELETE FROM positions WHERE query = :query AND batch < (SELECT batch FROM newest WHERE place = :kept)
""")
"""Walks from batch to batch by the key, where ``SELECT DISTINCT`` would read every row of the query."""

_FORGET_FORMER = sa.text(
    "DELETE FROM positions WHERE query = :query AND batch > :batch AND tracked_at < :tracked_at"
).bindparams(sa.bindparam("tracked_at", type_=Instant()))


class Positions(Part):
    """Bulk in, and a few reads."""

    def save_positions(self, positions: Iterable[Position]) -> None:
        dialect = self._engines.dialect
        rows: dict[tuple[object, ...], tuple[object, ...]] = {}
        newest: dict[str, Position] = {}
        for position in positions:
            row = _position_row(position, dialect)
            rows[row[:5]] = row
            if position.query not in newest or newest[position.query].tracked_at <= position.tracked_at:
                newest[position.query] = position
        self._write_chunks(_POSITIONS, rows, None)
        for query, position in newest.items():
            with self._writing() as connection:
                former = {"query": query, "batch": position.batch, "tracked_at": position.tracked_at}
                connection.execute(_FORGET_FORMER, former)
                connection.execute(_FORGET_OLD, {"query": query, "kept": KEPT_BATCHES})

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
        self, table: sa.Table, rows: dict[tuple[object, ...], tuple[object, ...]], newer_by: str | None
    ) -> None:
        """Sorted by key, so that two writers lock rows in the same order."""
        ordered = [rows[key] for key in sorted(rows, key=str)]
        for chunk in bulk.chunks(ordered):
            with self._writing() as connection:
                bulk.upsert(connection, table, chunk, newer_by)


_POSITIONS = positions


def _position_row(position: Position, dialect: str) -> tuple[object, ...]:
    """Driver values in the order of the table's columns."""
    return (
        position.query,
        position.batch,
        position.source,
        position.topic,
        position.partition,
        position.offset,
        position.timestamp_ms,
        position.leader_epoch,
        position.topic_id,
        pack_ring(position.ring),
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
