"""What operators asked for, and how it was answered."""

from collections.abc import Sequence

import sqlalchemy as sa

from state.guards import check_answer, check_asked, refuse_other_answer
from state.model import Event, Request
from state.sql.database import Part, values_of
from state.sql.history import append
from state.sql.schema import requests

_UNANSWERED = sa.and_(requests.c.operation.is_(None), requests.c.refused.is_(None))
_OPEN = sa.select(requests).where(_UNANSWERED).order_by(requests.c.created_at, requests.c.id)
"""Made once: it is asked ten times a second, and making it costs more than asking."""


class Requests(Part):
    """Requests, taken by the leading controller."""

    def ask(self, request: Request, *, term: int | None = None) -> None:
        check_asked(request)
        with self._writing() if term is None else self._leading(term) as connection:
            insert = self._insert(requests).values(**values_of(request))
            connection.execute(insert.on_conflict_do_nothing(index_elements=["id"]))

    def open_requests(self) -> Sequence[Request]:
        return self._rows(Request, _OPEN)

    def request(self, request_id: str) -> Request | None:
        return self._row(Request, sa.select(requests).where(requests.c.id == request_id))

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
