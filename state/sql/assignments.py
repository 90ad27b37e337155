"""The rows that say where queries run; every change is conditional on the epoch that it starts from."""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from state.guards import check_adopted, check_held, check_placed, check_reconciled, placed_at, put_back
from state.model import Assignment, Desired, Event, Intent, Operation, Step
from state.sql.database import Part, upsert, values_of
from state.sql.operations import OperationWriter
from state.sql.schema import assignments, operations, query_facts

_ALL = sa.select(assignments).order_by(assignments.c.query)


class Assignments(OperationWriter, Part):
    """Adopt, hold, place, reconcile."""

    def assignments(self) -> Sequence[Assignment]:
        return self._rows(Assignment, _ALL)

    def assignment(self, query: str) -> Assignment | None:
        return self._row(Assignment, sa.select(assignments).where(assignments.c.query == query))

    def adopt(self, assignment: Assignment) -> Assignment:
        check_adopted(assignment)
        with self._writing() as connection:
            insert = self._insert(assignments).values(**values_of(assignment))
            connection.execute(insert.on_conflict_do_nothing(index_elements=["query"]))
            stands = sa.select(assignments).where(assignments.c.query == assignment.query)
            return Assignment(**connection.execute(stands).one()._asdict())

    def hold(self, operation: Operation, *, from_epoch: int, term: int, step: Step, event: Event) -> Assignment | None:
        check_held(operation, from_epoch)
        already_open = sa.exists().where(operations.c.query == operation.query, operations.c.outcome.is_(None))
        change = (
            sa.update(assignments)
            .where(assignments.c.query == operation.query, assignments.c.epoch == from_epoch, ~already_open)
            .values(epoch=operation.epoch, desired=Desired.HELD, operation=operation.id, changed_at=event.at)
        )
        with self._leading(term) as connection:
            row = connection.execute(change.returning(*assignments.c)).first()
            if row is None:
                return None
            connection.execute(sa.insert(operations).values(**values_of(operation)))
            self._write_parts(connection, [step], [event], [])
            return Assignment(**row._asdict())

    def place(
        self,
        assignment: Assignment,
        *,
        operation: Operation,
        from_epoch: int,
        term: int,
        steps: Iterable[Step],
        event: Event,
    ) -> bool:
        check_placed(assignment, from_epoch)
        change = (
            sa.update(assignments)
            .where(assignments.c.query == assignment.query, assignments.c.epoch == from_epoch)
            .values(**values_of(assignment))
        )
        with self._leading(term) as connection:
            if connection.execute(change).rowcount == 0:
                return False
            self._write_operation(connection, operation)
            self._write_parts(connection, steps, [event], [])
            return True

    def reconcile(
        self,
        assignment: Assignment,
        *,
        from_epoch: int | None,
        event: Event,
        operation: Operation | None = None,
        intents: Iterable[Intent] = (),
    ) -> bool:
        check_reconciled(assignment, from_epoch)
        query, place_at = assignment.query, placed_at(assignment, from_epoch)
        with self._writing() as connection:
            reported = sa.select(query_facts.c.epoch).where(query_facts.c.query == query)
            row = sa.select(assignments.c.epoch).where(assignments.c.query == query).with_for_update()
            if (connection.execute(reported).scalar() or 0) >= assignment.epoch:
                return False
            if connection.execute(row).scalar() != from_epoch:
                return False
            self._lift(connection, query, from_epoch or place_at, place_at - 1)
            values = values_of(assignment) | {"epoch": place_at}
            connection.execute(upsert(self._insert(assignments), assignments, values))
            self._lift(connection, query, place_at, assignment.epoch)
            open_one = sa.select(operations).where(operations.c.query == query, operations.c.outcome.is_(None))
            under_way = connection.execute(open_one).first()
            if under_way is not None and (operation is None or operation.id != under_way.id):
                self._write_operation(connection, put_back(Operation(**under_way._asdict()), event))
            if operation is not None:
                self._withdraw(connection, operation, event.at)
                self._write_operation(connection, operation)
            self._write_parts(connection, [], [event], intents)
            return True

    def _lift(self, connection: sa.Connection, query: str, from_epoch: int, to_epoch: int) -> None:
        """Lift a row's epoch step by step, because the table lets nobody jump."""
        change = sa.update(assignments).where(assignments.c.query == query).values(epoch=assignments.c.epoch + 1)
        for _ in range(from_epoch, to_epoch):
            connection.execute(change)
