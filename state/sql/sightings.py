"""What is seen of the clusters, and what is believed of them."""

from collections.abc import Iterable, Sequence
from functools import cache

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from state.guards import check_believed
from state.model import Event
from state.sighting import Belief, Sighting
from state.sql.columns import Instant
from state.sql.database import Insert, Part, upsert, values_of
from state.sql.history import append
from state.sql.schema import beliefs, sightings


class Sightings(Part):
    """One row a viewpoint, one row a verdict."""

    def see(self, sightings: Iterable[Sighting]) -> None:
        ordered = sorted(sightings, key=lambda each: (each.cluster, each.viewpoint))  # rows are locked in one order
        if not ordered:
            return
        with self._writing() as connection:
            now = connection.execute(sa.select(self._clock())).scalar_one()
            rows = [values_of(sighting) | {"store_now": now} for sighting in ordered]
            connection.execute(_newer_only(self._engines.dialect), rows)

    def sightings(self, cluster: str | None = None) -> Sequence[Sighting]:
        found = sa.select(sightings).order_by(sightings.c.cluster, sightings.c.viewpoint)
        return self._rows(Sighting, found if cluster is None else found.where(sightings.c.cluster == cluster))

    def believe(self, belief: Belief, *, term: int, event: Event) -> bool:
        check_believed(belief, term)
        with self._leading(term) as connection:
            stands = connection.execute(
                sa.select(beliefs.c.verdict, beliefs.c.since).where(beliefs.c.cluster == belief.cluster)
            ).first()
            same = stands is not None and stands.verdict is belief.verdict
            values = values_of(belief) | ({"since": stands.since} if stands and same else {})
            connection.execute(upsert(self._insert(beliefs), beliefs, values))
            if not same:
                append(connection, [event])
            return not same

    def beliefs(self) -> Sequence[Belief]:
        return self._rows(Belief, sa.select(beliefs).order_by(beliefs.c.cluster))


@cache
def _newer_only(dialect: str) -> Insert:
    """The upsert of a sighting, made once: it runs twice a second, and making it costs more than running it."""
    insert: Insert = sqlite.insert(sightings) if dialect == "sqlite" else postgresql.insert(sightings)
    from_the_future = sightings.c.seen_at > sa.bindparam("store_now", type_=Instant())
    return insert.on_conflict_do_update(
        index_elements=["cluster", "viewpoint"],
        set_={column.name: insert.excluded[column.name] for column in sightings.c if not column.primary_key},
        where=sa.or_(sightings.c.seen_at <= insert.excluded.seen_at, from_the_future),
    )
