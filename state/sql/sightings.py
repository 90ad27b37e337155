"""What is seen of the clusters, and what is believed of them."""

from collections.abc import Iterable, Sequence
from functools import cache

import sqlalchemy as sa

from state.guards import check_believed
from state.model import Event
from state.sighting import Belief, Sighting
from state.sql.columns import Instant
from state.sql.database import Insert, Part, changing, insert_into, values_of
from state.sql.history import append
from state.sql.schema import beliefs, sightings

# Statements are made once: they run all the time, and making one costs more than running it.
_ALL = sa.select(sightings).order_by(sightings.c.cluster, sightings.c.viewpoint)
_BELIEVED = sa.select(beliefs).order_by(beliefs.c.cluster)
_STANDING = sa.select(beliefs.c.verdict, beliefs.c.since).where(beliefs.c.cluster == sa.bindparam("believed"))


class Sightings(Part):
    """One row a viewpoint, one row a verdict."""

    def see(self, sightings: Iterable[Sighting]) -> None:
        ordered = sorted(sightings, key=lambda each: (each.cluster, each.viewpoint))  # rows are locked in one order
        if not ordered:
            return
        with self._writing() as connection:
            now = self._at(connection)
            rows = [values_of(sighting) | {"store_now": now} for sighting in ordered]
            connection.execute(_newer_only(self._engines.dialect), rows)

    def sightings(self, cluster: str | None = None) -> Sequence[Sighting]:
        return self._rows(Sighting, _ALL if cluster is None else _ALL.where(sightings.c.cluster == cluster))

    def believe(self, belief: Belief, *, term: int, event: Event) -> bool:
        check_believed(belief, term)
        with self._leading(term) as connection:
            stands = connection.execute(_STANDING, {"believed": belief.cluster}).first()
            same = stands is not None and stands.verdict is belief.verdict
            values = values_of(belief) | ({"since": stands.since} if stands and same else {})
            connection.execute(_newest(self._engines.dialect), values)
            if not same:
                append(connection, [event])
            return not same

    def beliefs(self) -> Sequence[Belief]:
        return self._rows(Belief, _BELIEVED)


@cache
def _newer_only(dialect: str) -> Insert:
    """The upsert of a sighting; what is newer stays, unless it claims to come from the future."""
    insert = insert_into(dialect, sightings)
    from_the_future = sightings.c.seen_at > sa.bindparam("store_now", type_=Instant())
    newer = sa.or_(sightings.c.seen_at <= insert.excluded.seen_at, from_the_future)
    return changing(insert, sightings, sightings.c.keys(), newer)


@cache
def _newest(dialect: str) -> Insert:
    """The upsert of a belief."""
    return changing(insert_into(dialect, beliefs), beliefs, beliefs.c.keys())
