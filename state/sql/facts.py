"""What runners report of themselves and of their queries."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from state.model import QueryFact, RunnerFact
from state.sql.columns import Instant
from state.sql.database import Part, upsert, values_of
from state.sql.schema import query_facts, runners


class Facts(Part):
    """One row a runner, one row a query."""

    def register(self, fact: RunnerFact, *, stale_after: timedelta) -> RunnerFact | None:
        with self._writing() as connection:
            insert = self._insert(runners).values(**(values_of(fact) | {"seen_at": self._clock()}))
            changes = {name: insert.excluded[name] for name in values_of(fact) if name != "runner"}
            free = sa.or_(runners.c.instance == fact.instance, runners.c.seen_at <= self._ago(stale_after))
            statement = insert.on_conflict_do_update(index_elements=["runner"], set_=changes, where=free)
            if connection.execute(statement.returning(runners.c.runner)).first() is not None:
                return None
            stands = connection.execute(sa.select(runners).where(runners.c.runner == fact.runner)).one()
            return RunnerFact(**stands._asdict())

    def unregister(self, runner: str, instance: str) -> None:
        with self._writing() as connection:
            ours = sa.and_(runners.c.runner == runner, runners.c.instance == instance)
            connection.execute(sa.delete(runners).where(ours))

    def runners(self) -> Sequence[RunnerFact]:
        return self._rows(RunnerFact, sa.select(runners).order_by(runners.c.runner))

    def report_query(self, fact: QueryFact) -> bool:
        with self._writing() as connection:
            insert = self._insert(query_facts)
            statement = upsert(insert, query_facts, values_of(fact), query_facts.c.epoch <= insert.excluded.epoch)
            return connection.execute(statement.returning(query_facts.c.query)).first() is not None

    def query_facts(self) -> Sequence[QueryFact]:
        return self._rows(QueryFact, sa.select(query_facts).order_by(query_facts.c.query))

    def _ago(self, age: timedelta) -> sa.ColumnElement[datetime]:
        """The store's clock less ``age``."""
        if self._engines.dialect == "sqlite":
            return sa.literal(datetime.now(UTC) - age, Instant())
        return sa.type_coerce(sa.func.clock_timestamp() - sa.literal(age, sa.Interval()), Instant())
