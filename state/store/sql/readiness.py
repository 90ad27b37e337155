"""What checks found of each query's standby: the last answer, and numbers of the last hours; and the order of times."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from state.model.entities import Event
from state.model.maintenance import Disorder, ReadinessFact, ReplicationSample, StandbySample
from state.store.sql.columns import pack, unpack
from state.store.sql.database import Part, upsert, values_of
from state.store.sql.engine import translated
from state.store.sql.history import append
from state.store.sql.schema import disorders, readiness, standby_samples
from state.store.write_checks import check_pruned


class ReadinessTables(Part):
    """One row of readiness and one of disorder a query, and a row a sample."""

    def keep_readiness(
        self,
        fact: ReadinessFact,
        *,
        term: int,
        event: Event,
        replication: ReplicationSample | None = None,
        sample: StandbySample | None = None,
    ) -> bool:
        with self._leading(term) as connection:
            stands = connection.execute(
                sa.select(readiness.c.ready, readiness.c.since).where(readiness.c.query == fact.query)
            ).first()
            same = stands is not None and stands.ready is fact.ready
            packed = pack(replication) if replication is not None else None
            kept = {"since": stands.since} if stands and same else {}
            values = values_of(fact) | kept | {"replication": packed}
            connection.execute(upsert(self._insert(readiness), readiness, values))
            if sample is not None:
                connection.execute(upsert(self._insert(standby_samples), standby_samples, values_of(sample)))
            if not same:
                append(connection, [event])
            return not same

    def readiness(self) -> Sequence[ReadinessFact]:
        return self._rows(ReadinessFact, sa.select(*_FACT).order_by(readiness.c.query))

    def replication(self, query: str) -> ReplicationSample | None:
        kept = sa.select(readiness.c.replication).where(readiness.c.query == query)
        with translated(), self._engines.read.connect() as connection:
            packed = connection.execute(kept).scalar()
        return unpack(packed) if packed is not None else None

    def keep_disorder(self, disorder: Disorder, *, term: int) -> None:
        with self._leading(term) as connection:
            connection.execute(upsert(self._insert(disorders), disorders, values_of(disorder)))

    def disorder(self, query: str) -> Disorder | None:
        return self._row(Disorder, sa.select(disorders).where(disorders.c.query == query))

    def standby_samples(self, query: str, *, since: datetime | None = None) -> Sequence[StandbySample]:
        kept = sa.select(standby_samples).where(standby_samples.c.query == query)
        if since is not None:
            kept = kept.where(standby_samples.c.sampled_at >= since)
        return self._rows(StandbySample, kept.order_by(standby_samples.c.sampled_at))

    def prune_standby_samples(self, before: datetime, *, limit: int, term: int) -> int:
        keys = list(standby_samples.primary_key.columns)
        with self._leading(term) as connection:
            check_pruned(before, self._at(connection), keep=1, limit=limit)
            old = sa.select(*keys).where(standby_samples.c.sampled_at < before).limit(limit)
            gone = sa.delete(standby_samples).where(sa.tuple_(*keys).in_(old))
            return connection.execute(gone).rowcount


_FACT = [column for column in readiness.c if column.name != "replication"]
"""Read every second by who looks on; the sample of replication beside it is large, and asked for by itself."""
