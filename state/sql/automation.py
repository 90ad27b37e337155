"""What people told automatic mode, each word with its line of history in one transaction."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from state.automation import Acknowledgement, Pause
from state.guards import check_pause, refuse_stranger
from state.model import Event
from state.sql.database import Part, upsert, values_of
from state.sql.history import append
from state.sql.schema import acknowledgements, operations, pauses


class Automation(Part):
    """Pauses by scope, acknowledgements by operation."""

    def pause(self, pause: Pause, *, event: Event) -> None:
        check_pause(pause)
        with self._writing() as connection:
            connection.execute(upsert(self._insert(pauses), pauses, values_of(pause)))
            append(connection, [event])

    def resume(self, scope: str, *, at: datetime, event: Event) -> Pause | None:
        in_force = sa.and_(pauses.c.resumed_at.is_(None), sa.or_(pauses.c.until.is_(None), pauses.c.until > at))
        change = sa.update(pauses).where(pauses.c.scope == scope, in_force).values(resumed_at=at)
        with self._writing() as connection:
            row = connection.execute(change.returning(*pauses.c)).first()
            if row is None:
                return None
            append(connection, [event])
            return Pause(**row._asdict())

    def pauses(self) -> Sequence[Pause]:
        return self._rows(Pause, sa.select(pauses).order_by(pauses.c.scope))

    def acknowledge(self, given: Acknowledgement, *, event: Event) -> bool:
        with self._writing() as connection:
            owner = connection.execute(sa.select(operations.c.query).where(operations.c.id == given.operation)).scalar()
            refuse_stranger(given, owner)
            insert = self._insert(acknowledgements).values(**values_of(given))
            insert = insert.on_conflict_do_nothing(index_elements=["operation"])
            if connection.execute(insert.returning(acknowledgements.c.operation)).first() is None:
                return False
            append(connection, [event])
            return True

    def acknowledgements(self, query: str) -> Sequence[Acknowledgement]:
        order = (acknowledgements.c.at.desc(), acknowledgements.c.operation.desc())
        found = sa.select(acknowledgements).where(acknowledgements.c.query == query)
        return self._rows(Acknowledgement, found.order_by(*order))
