"""What runners report of themselves and of their queries."""

from collections.abc import Sequence

import sqlalchemy as sa

from state.model import QueryFact, RunnerFact, RunState
from state.sql.database import Part, upsert, values_of
from state.sql.schema import query_facts, runners

_REGISTERED = sa.select(runners.c.instance).where(runners.c.runner == sa.bindparam("runner")).with_for_update(read=True)
"""Locked until the end, so that nobody takes the name over between the look and the write."""


class Facts(Part):
    """One row a runner, one row a query."""

    def register(self, fact: RunnerFact) -> RunnerFact | None:
        with self._writing() as connection:
            insert = self._insert(runners).values(**(values_of(fact) | {"seen_at": self._clock()}))
            changes = {name: insert.excluded[name] for name in values_of(fact) if name != "runner"}
            ours = runners.c.instance == fact.instance
            statement = insert.on_conflict_do_update(index_elements=["runner"], set_=changes, where=ours)
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
            starts = fact.state is RunState.STARTING
            if starts and connection.execute(_REGISTERED, {"runner": fact.runner}).scalar() != fact.instance:
                return False
            insert = self._insert(query_facts)
            same = query_facts.c.epoch == fact.epoch
            if not starts:
                same = sa.and_(same, query_facts.c.instance == fact.instance)
            statement = upsert(insert, query_facts, values_of(fact), sa.or_(query_facts.c.epoch < fact.epoch, same))
            return connection.execute(statement.returning(query_facts.c.query)).first() is not None

    def query_facts(self) -> Sequence[QueryFact]:
        return self._rows(QueryFact, sa.select(query_facts).order_by(query_facts.c.query))
