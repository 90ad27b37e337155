"""Requests, pauses and acknowledgements of people, and operations with the rows that they change."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.dml import ReturningInsert

from state.errors import Conflict
from state.model.automation import Acknowledgement, Pause
from state.model.entities import (
    EVERY_KIND,
    MOVES,
    Assignment,
    Departure,
    Desired,
    Event,
    Intent,
    IntentState,
    Operation,
    OperationKind,
    Phase,
    Request,
    Step,
)
from state.store.sql.columns import dumps
from state.store.sql.database import Insert, Part, changing, insert_into, upsert, values_of
from state.store.sql.engine import translated
from state.store.sql.history import append
from state.store.sql.maintenance import FormerWriter
from state.store.sql.schema import (
    acknowledgements,
    assignments,
    intents,
    operations,
    pauses,
    query_facts,
    requests,
    steps,
)
from state.store.write_checks import (
    PLACED,
    check_adopted,
    check_answer,
    check_held,
    check_pause,
    check_placed,
    check_reconciled,
    check_reported,
    check_request,
    joined_consents,
    placed_at,
    put_back,
    refuse_other_answer,
    refuse_other_request,
    refuse_stranger,
)

_UNANSWERED = sa.and_(requests.c.operation.is_(None), requests.c.refused.is_(None))


@cache
def _open(kinds: frozenset[OperationKind]) -> sa.Select[Any]:
    """Made once: it runs ten times a second, and making it costs more than running it."""
    found = sa.select(requests).where(_UNANSWERED, _of_kinds(requests.c.kind, kinds))
    return found.order_by(requests.c.created_at, requests.c.id)


def _of_kinds(column: sa.ColumnElement[Any], kinds: frozenset[OperationKind]) -> sa.ColumnElement[bool]:
    """Literal, because a parameter would keep SQLite from using a partial index."""
    drill = column == sa.literal_column("'drill'")
    if OperationKind.DRILL not in kinds:
        return sa.not_(drill)
    return sa.true() if kinds == EVERY_KIND else drill


class RequestTable(Part):
    """Requests, taken by the leading controller."""

    def add_request(self, request: Request, *, term: int | None = None) -> None:
        check_request(request)
        with self._writing() if term is None else self._leading(term) as connection:
            insert = self._insert(requests).values(**values_of(request)).on_conflict_do_nothing(index_elements=["id"])
            if connection.execute(insert.returning(requests.c.id)).first() is None:
                row = connection.execute(sa.select(requests).where(requests.c.id == request.id)).one()
                refuse_other_request(request, Request(**row._asdict()))

    def open_requests(self, *, kinds: frozenset[OperationKind] = MOVES) -> Sequence[Request]:
        return self._rows(Request, _open(kinds))

    def request(self, request_id: str) -> Request | None:
        return self._row(Request, sa.select(requests).where(requests.c.id == request_id))

    def requests_of(self, group: str) -> Sequence[Request]:
        found = sa.select(requests).where(requests.c.group == group)
        return self._rows(Request, found.order_by(requests.c.created_at, requests.c.id))

    def answer(
        self,
        request_id: str,
        *,
        term: int,
        operation: str | None = None,
        refused: str | None = None,
        event: Event | None = None,
    ) -> None:
        check_answer(operation, refused)
        with self._leading(term) as connection:
            waiting = sa.and_(requests.c.id == request_id, _UNANSWERED)
            change = sa.update(requests).where(waiting).values(operation=operation, refused=refused)
            if connection.execute(change).rowcount == 0:
                row = connection.execute(sa.select(requests).where(requests.c.id == request_id)).first()
                refuse_other_answer(request_id, Request(**row._asdict()) if row else None, operation, refused)
            elif event is not None:
                append(connection, [event])


class AutomationTables(Part):
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


@cache
def _writing(dialect: str) -> ReturningInsert[tuple[str]]:
    """The upsert of an operation; a row of a later epoch stays, and so do consents."""
    insert = insert_into(dialect, operations)
    is_known = operations.c.epoch <= insert.excluded.epoch
    names = {*operations.c.keys()} - {"consents"}
    return changing(insert, operations, names, is_known).returning(operations.c.id)


@cache
def _stepping(dialect: str) -> Insert:
    """The upsert of a step."""
    return changing(insert_into(dialect, steps), steps, steps.c.keys())


_ONE = sa.select(operations).where(operations.c.id == sa.bindparam("of"))
_INTENT_INSERT = sa.insert(intents)
_INTENT_REQUESTED = sa.select(intents.c.id).where(
    intents.c.operation == sa.bindparam("of"), intents.c.name == sa.bindparam("called")
)

_MARKS = (
    sa.select(
        operations.c.id,
        operations.c.consents,
        sa.select(sa.func.count())
        .where(intents.c.operation == operations.c.id, intents.c.state != IntentState.PENDING)
        .scalar_subquery(),
        sa.select(sa.func.count()).where(requests.c.query == operations.c.query, _UNANSWERED).scalar_subquery(),
        *(query_facts.c[name] for name in ("instance", "epoch", "state", "batch", "first_commit_at", "progressed_at")),
    )
    .join_from(operations, query_facts, operations.c.query == query_facts.c.query, isouter=True)
    .where(operations.c.outcome.is_(None))
)


class OperationWriter(Part):
    """Writes an operation and what belongs to it, inside a transaction of the caller."""

    def _write_operation(self, connection: sa.Connection, operation: Operation) -> None:
        """Upsert, the consents of a stored row excepted; closing withdraws the intents that no runner answered.

        Raises ``Conflict`` where the row is of a later epoch: the writer saw it before it was reconciled.
        """
        if connection.execute(_writing(self._engines.dialect), values_of(operation)).first() is None:
            raise Conflict(
                f"operation {operation.id} is at a later epoch than {operation.epoch}", hint="run the command again"
            )
        if not operation.is_open:
            self._withdraw(connection, operation, self._clock() if operation.ended_at is None else operation.ended_at)

    def _withdraw(
        self, connection: sa.Connection, operation: Operation, at: datetime | sa.ColumnElement[datetime]
    ) -> None:
        """Take back its orders that no runner answered."""
        waiting = sa.and_(intents.c.operation == operation.id, intents.c.state == IntentState.PENDING)
        connection.execute(sa.update(intents).where(waiting).values(state=IntentState.WITHDRAWN, ended_at=at))

    def _write_parts(
        self, connection: sa.Connection, written: Iterable[Step], events: Iterable[Event], requested: Iterable[Intent]
    ) -> None:
        for step in written:
            connection.execute(_stepping(self._engines.dialect), values_of(step))
        for intent in requested:
            if connection.execute(_INTENT_REQUESTED, {"of": intent.operation, "called": intent.name}).first() is None:
                connection.execute(_INTENT_INSERT, values_of(intent))
        append(connection, events)


_IS_MOVE = _of_kinds(operations.c.kind, MOVES)
_LAST_AWAY = (
    sa.select(operations.c.query, operations.c.source, sa.func.max(operations.c.epoch).label("epoch"))
    .where(operations.c.phase.in_(sorted(PLACED)), operations.c.source != operations.c.target, _IS_MOVE)
    .group_by(operations.c.query, operations.c.source)
    .subquery("last_away")
)
"""A statement of its own, so that nothing is read past the large plans but of the rows that are wanted."""
_DEPARTURES = (
    sa.select(
        *(operations.c[name] for name in ("query", "source", "target", "epoch")),
        operations.c.id.label("operation"),
        operations.c.started_at.label("at"),
    )
    .join_from(
        operations,
        _LAST_AWAY,
        sa.and_(*(operations.c[name] == _LAST_AWAY.c[name] for name in ("query", "source", "epoch"))),
    )
    .where(_IS_MOVE)
    .order_by(operations.c.query, operations.c.source)
)
_STEPS = sa.select(steps).where(steps.c.operation == sa.bindparam("of")).order_by(steps.c.sequence)


class OperationTables(OperationWriter):
    """Operations, and their steps in order."""

    def operation(self, operation_id: str) -> Operation | None:
        return self._row(Operation, _ONE, {"of": operation_id})

    def operations(
        self,
        *,
        group: str | None = None,
        query: str | None = None,
        only_open: bool = False,
        limit: int = 100,
        kinds: frozenset[OperationKind] = MOVES,
    ) -> Sequence[Operation]:
        newest = (operations.c.started_at.desc(), operations.c.id.desc())
        order = newest if query is None else (operations.c.epoch.desc(), *newest)
        found = sa.select(operations).where(_of_kinds(operations.c.kind, kinds)).order_by(*order).limit(limit)
        if group is not None:
            found = found.where(operations.c.group == group)
        if query is not None:
            found = found.where(operations.c.query == query)
        if only_open:
            found = found.where(operations.c.outcome.is_(None))
        return self._rows(Operation, found)

    def change_marks(self) -> Mapping[str, Hashable]:
        with translated(), self._engines.read.connect() as connection:
            return {row[0]: tuple(row[1:]) for row in connection.execute(_MARKS)}

    def departures(self) -> Sequence[Departure]:
        return self._rows(Departure, _DEPARTURES)

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
            stored = connection.execute(found).first()
            if stored is None:
                return False
            joined = joined_consents(stored.consents, consents)
            if joined != stored.consents:
                if stored.phase is Phase.ABORTED:
                    return False
                connection.execute(sa.update(operations).where(this).values(consents=joined))
                append(connection, [event])
            return True

    def steps(self, operation_id: str) -> Sequence[Step]:
        return self._rows(Step, _STEPS, {"of": operation_id})


class IntentTable(Part):
    """What runners shall do, and what they answered."""

    def intents(self, operation_id: str) -> Sequence[Intent]:
        return self._rows(Intent, _OF_OPERATION, {"of": operation_id})

    def pending_intents(self, runner: str) -> Sequence[Intent]:
        return self._rows(Intent, _OF_RUNNER, {"by": runner})

    def report(self, intent: Intent, *, term: int | None = None) -> bool:
        check_reported(intent)
        change = (
            sa.update(intents)
            .where(intents.c.id == intent.id, _IS_PENDING)
            .values(state=intent.state, result=intent.result, ended_at=intent.ended_at)
        )
        with self._writing() if term is None else self._leading(term) as connection:
            if connection.execute(change).rowcount == 1:
                return True
            kept = sa.select(intents.c.state, intents.c.result, intents.c.ended_at).where(intents.c.id == intent.id)
            stored = connection.execute(kept).first()
            return stored is not None and tuple(stored) == (intent.state, _kept(intent.result), intent.ended_at)


def _kept(result: Mapping[str, object] | None) -> object:
    """As the database returns it."""
    return None if result is None else json.loads(dumps(result))


_IN_ORDER = sa.select(intents).order_by(intents.c.created_at, intents.c.id)
_IS_PENDING = sa.text("intents.state = 'pending'")
"""Literal, because a parameter would keep SQLite from using the partial index."""
_OF_OPERATION = _IN_ORDER.where(intents.c.operation == sa.bindparam("of"))
_OF_RUNNER = _IN_ORDER.where(intents.c.runner == sa.bindparam("by"), _IS_PENDING)


_ALL = sa.select(assignments).order_by(assignments.c.query)
_STANDING = sa.select(assignments).where(assignments.c.query == sa.bindparam("of"))
_OPENING = sa.insert(operations)
_PLACING = sa.update(assignments).where(
    assignments.c.query == sa.bindparam("of"), assignments.c.epoch == sa.bindparam("from_epoch")
)


class AssignmentTable(OperationWriter, FormerWriter, Part):
    """Adopt, hold, place, reconcile."""

    def assignments(self) -> Sequence[Assignment]:
        return self._rows(Assignment, _ALL)

    def assignment(self, query: str) -> Assignment | None:
        return self._row(Assignment, _STANDING, {"of": query})

    def adopt(self, assignment: Assignment) -> Assignment:
        check_adopted(assignment)
        with self._writing() as connection:
            insert = self._insert(assignments).values(**values_of(assignment))
            connection.execute(insert.on_conflict_do_nothing(index_elements=["query"]))
            stored = sa.select(assignments).where(assignments.c.query == assignment.query)
            return Assignment(**connection.execute(stored).one()._asdict())

    def hold(self, operation: Operation, *, from_epoch: int, term: int, step: Step, event: Event) -> Assignment | None:
        check_held(operation, from_epoch)
        moves = _of_kinds(operations.c.kind, MOVES)
        already_open = sa.exists().where(operations.c.query == operation.query, operations.c.outcome.is_(None), moves)
        change = (
            sa.update(assignments)
            .where(assignments.c.query == operation.query, assignments.c.epoch == from_epoch, ~already_open)
            .values(epoch=operation.epoch, desired=Desired.HELD, operation=operation.id, changed_at=event.at)
        )
        with self._leading(term) as connection:
            row = connection.execute(change.returning(*assignments.c)).first()
            if row is None:
                return None
            connection.execute(_OPENING, values_of(operation))
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
        values = values_of(assignment) | {"of": assignment.query, "from_epoch": from_epoch}
        with self._leading(term) as connection:
            before = connection.execute(_STANDING, {"of": assignment.query}).first()
            if before is None or connection.execute(_PLACING, values).rowcount == 0:
                return False
            self._leave(connection, before, assignment, event.at)
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
            row = sa.select(assignments).where(assignments.c.query == query).with_for_update()
            if (connection.execute(reported).scalar() or 0) >= assignment.epoch:
                return False
            before = connection.execute(row).first()
            if (None if before is None else before.epoch) != from_epoch:
                return False
            self._leave(connection, before, assignment, event.at)
            self._lift(connection, query, from_epoch or place_at, place_at - 1)
            values = values_of(assignment) | {"epoch": place_at}
            connection.execute(upsert(self._insert(assignments), assignments, values))
            self._lift(connection, query, place_at, assignment.epoch)
            moves = _of_kinds(operations.c.kind, MOVES)
            open_one = sa.select(operations).where(operations.c.query == query, operations.c.outcome.is_(None), moves)
            under_way = connection.execute(open_one).first()
            if under_way is not None and (operation is None or operation.id != under_way.id):
                self._write_operation(connection, put_back(Operation(**under_way._asdict()), event))
            if operation is not None:
                self._withdraw(connection, operation, event.at)
                self._write_operation(connection, operation)
            self._write_parts(connection, [], [event], intents)
            return True

    def _lift(self, connection: sa.Connection, query: str, from_epoch: int, to_epoch: int) -> None:
        """Lift a row's epoch step by step, because the table allows no jump."""
        change = sa.update(assignments).where(assignments.c.query == query).values(epoch=assignments.c.epoch + 1)
        for _ in range(from_epoch, to_epoch):
            connection.execute(change)
