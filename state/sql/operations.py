"""Operations with their steps and the intents that they put to runners."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import sqlalchemy as sa

from state.errors import Conflict
from state.guards import check_reported, joined_consents
from state.model import Event, Intent, IntentState, Operation, Phase, Step
from state.sql.database import Part, upsert, values_of
from state.sql.history import append
from state.sql.schema import intents, operations, steps


class OperationWriter(Part):
    """Writes an operation and what belongs to it, inside a transaction of the caller."""

    def _write_operation(self, connection: sa.Connection, operation: Operation) -> None:
        """Upsert, the consents of a row that stands excepted; closing withdraws the intents that nobody answered.

        Raises ``Conflict`` where the row is of a later epoch: whoever writes saw it before it was reconciled.
        """
        insert = self._insert(operations)
        is_known = operations.c.epoch <= insert.excluded.epoch
        statement = upsert(insert, operations, values_of(operation), is_known, keep=("consents",))
        if connection.execute(statement.returning(operations.c.id)).first() is None:
            raise Conflict(f"operation {operation.id} is at a later epoch than {operation.epoch}", hint="look again")
        if not operation.is_open:
            self._withdraw(connection, operation, self._clock() if operation.ended_at is None else operation.ended_at)

    def _withdraw(
        self, connection: sa.Connection, operation: Operation, at: datetime | sa.ColumnElement[datetime]
    ) -> None:
        """Take back what it asked for and nobody answered."""
        waiting = sa.and_(intents.c.operation == operation.id, intents.c.state == IntentState.PENDING)
        connection.execute(sa.update(intents).where(waiting).values(state=IntentState.WITHDRAWN, ended_at=at))

    def _write_parts(
        self, connection: sa.Connection, written: Iterable[Step], events: Iterable[Event], asked: Iterable[Intent]
    ) -> None:
        for step in written:
            connection.execute(upsert(self._insert(steps), steps, values_of(step)))
        for intent in asked:
            same = sa.and_(intents.c.operation == intent.operation, intents.c.name == intent.name)
            if connection.execute(sa.select(intents.c.id).where(same)).first() is None:
                connection.execute(sa.insert(intents).values(**values_of(intent)))
        append(connection, events)


class Operations(OperationWriter):
    """Operations, and their steps in order."""

    def operation(self, operation_id: str) -> Operation | None:
        return self._row(Operation, sa.select(operations).where(operations.c.id == operation_id))

    def operations(
        self, *, group: str | None = None, query: str | None = None, only_open: bool = False, limit: int = 100
    ) -> Sequence[Operation]:
        newest = (operations.c.started_at.desc(), operations.c.id.desc())
        order = newest if query is None else (operations.c.epoch.desc(), *newest)
        found = sa.select(operations).order_by(*order).limit(limit)
        if group is not None:
            found = found.where(operations.c.group == group)
        if query is not None:
            found = found.where(operations.c.query == query)
        if only_open:
            found = found.where(operations.c.outcome.is_(None))
        return self._rows(Operation, found)

    def record(
        self,
        operation: Operation,
        *,
        term: int,
        steps: Iterable[Step] = (),
        events: Iterable[Event] = (),
        intents: Iterable[Intent] = (),
    ) -> None:
        with self._leading(term) as connection:
            self._write_operation(connection, operation)
            self._write_parts(connection, steps, events, intents)

    def consent(self, operation_id: str, consents: Iterable[str], *, term: int, event: Event) -> bool:
        this = sa.and_(operations.c.id == operation_id, operations.c.outcome.is_(None))
        with self._leading(term) as connection:
            found = sa.select(operations.c.consents, operations.c.phase).where(this).with_for_update()
            stands = connection.execute(found).first()
            if stands is None:
                return False
            joined = joined_consents(stands.consents, consents)
            if joined != stands.consents:
                if stands.phase is Phase.ABORTED:
                    return False
                connection.execute(sa.update(operations).where(this).values(consents=joined))
                append(connection, [event])
            return True

    def steps(self, operation_id: str) -> Sequence[Step]:
        return self._rows(Step, sa.select(steps).where(steps.c.operation == operation_id).order_by(steps.c.sequence))


class Intents(Part):
    """What runners shall do, and what they answered."""

    def intents(self, operation_id: str) -> Sequence[Intent]:
        return self._rows(Intent, _IN_ORDER.where(intents.c.operation == operation_id))

    def pending_intents(self, runner: str) -> Sequence[Intent]:
        return self._rows(Intent, _IN_ORDER.where(intents.c.runner == runner, _IS_PENDING))

    def report(self, intent: Intent, *, term: int | None = None) -> bool:
        check_reported(intent)
        change = (
            sa.update(intents)
            .where(intents.c.id == intent.id, _IS_PENDING)
            .values(state=intent.state, result=intent.result, ended_at=intent.ended_at)
        )
        with self._writing() if term is None else self._leading(term) as connection:
            return connection.execute(change).rowcount == 1


_IN_ORDER = sa.select(intents).order_by(intents.c.created_at, intents.c.id)
_IS_PENDING = sa.text("intents.state = 'pending'")
"""Literal, because a parameter would keep SQLite from using the partial index."""
