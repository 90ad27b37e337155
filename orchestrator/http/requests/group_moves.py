"""Moves of many queries at once: planned together, and requested as one group.

A cluster that is gone has many queries, and each of them is judged alone. One that is refused, or whose plan is another
by now, keeps no other from moving. What is wrong with the request itself is refused before anything is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from orchestrator.decide.operation.turns import WAVE, waves_of
from orchestrator.errors import Refused, UsageError
from orchestrator.facts.current import run_of
from orchestrator.http.auth import Principal
from orchestrator.http.requests.bodies import GroupedMove, MovesAsked, PlanAsked, PlansAsked
from orchestrator.http.requests.writes import Writes, actor_of, id_of
from orchestrator.operation.requests import RequestSpec, new_id
from state.model.entities import OperationKind
from state.model.plan import Plan
from state.settings.topics import chains_of


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenPlan:
    """One plan with its hash."""

    plan: Plan
    hash: str


@dataclass(frozen=True)
class GroupMoves:
    """Both methods raise ``StoreError``, ``UnknownName`` and ``UsageError``; several threads may call them."""

    writes: Writes

    def plan(self, asked: PlansAsked) -> Sequence[Mapping[str, object]]:
        """The plans and their hashes, as ``/api/plan`` gives each."""
        return [{"plan": each.plan.as_json(), "hash": each.hash} for each in self.planned(asked)]

    def planned(self, asked: PlansAsked) -> list[SeenPlan]:
        """One plan for each query, in the order in which they would begin; changes nothing, reads the clusters."""
        _check_once(asked.queries)
        for name in asked.queries:
            self.writes.target(OperationKind(asked.kind), name, asked.to)  # before the first cluster is read
        order = chains_of(self.writes.settings).in_order(asked.queries)
        plans = (PlanAsked(kind=asked.kind, query=name, to=asked.to, consents=asked.consents) for name in order)
        return [SeenPlan(plan=plan, hash=seen) for plan, seen in map(self.writes.planned, plans)]

    def move(self, asked: MovesAsked, who: Principal, key: str | None) -> Mapping[str, object]:
        """Request all of them: ``group``, the ``requests`` that were written, and who was ``refused`` and why.

        With a ``key`` each query is requested once, also where an answer was lost half-way. Raises ``Refused`` where
        no controller leads, and where not one query can be requested.
        """
        names = [each.query for each in asked.moves]
        _check_once(names)
        self.writes.check_led()
        kind, by_name = OperationKind(asked.kind), {each.query: each for each in asked.moves}
        targets = {each.query: self.writes.target(kind, each.query, each.to) for each in asked.moves}
        order = chains_of(self.writes.settings).in_order(names)  # who is upstream has to be written first
        sizes = self.writes.settings.operations.waves
        waves = waves_of(order, sizes) if sizes and len(order) > 1 else {}
        group = new_id(self.writes.store.now()) if key is None else id_of(who, key)
        requests: list[Mapping[str, object]] = []
        refused: list[Mapping[str, str]] = []
        for name in order:
            spec = self._spec(asked, by_name[name], targets[name], who, waves)
            own_key = None if key is None else f"{key}:{name}"
            try:
                requests.append(
                    self.writes.request_seen(
                        spec, who, own_key, expect_active=by_name[name].expect_active, seen=by_name[name].plan,
                        group=group,
                    )
                )  # fmt: skip
            except Refused as why:
                refused.append({"query": name, "text": str(why)})
        if not requests:
            raise Refused(f"none of {len(order)} was requested: {refused[0]['text']}", hint="request the plans again")
        return {"group": group, "requests": requests, "refused": refused}

    def _spec(
        self, asked: MovesAsked, move: GroupedMove, target: str, who: Principal, waves: Mapping[str, int]
    ) -> RequestSpec:
        return RequestSpec(
            kind=OperationKind(asked.kind), targets={move.query: target},
            expect_active={move.query: move.expect_active}, actor=actor_of(who), reason=asked.reason,
            consents=asked.consents, runs={move.query: run_of(self.writes.store, move.query)},
            within=timedelta(seconds=asked.within_seconds),
            parameters={WAVE: waves[move.query]} if move.query in waves else {},
        )  # fmt: skip


def _check_once(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{', '.join(twice)} is named twice", hint="name each query once")
