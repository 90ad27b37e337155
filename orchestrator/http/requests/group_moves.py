"""Moves of many queries at once: planned together, and requested as one group.

A cluster that is gone has many queries, and each of them is judged alone. One that is refused, or whose plan is another
by now, keeps no other from moving but those of later waves, and in a planned move those downstream of it. The leader
looks at the requests of a group alone and would not see why they have to stay, so they get none. All are judged before
the first request is written: what is wrong with the call itself writes nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from orchestrator.decide.gates.automatic import default_target
from orchestrator.decide.operation.turns import THERE, WAVE, waves_of
from orchestrator.errors import Refused, UsageError
from orchestrator.facts.current import Turns, run_of
from orchestrator.http.auth import Principal
from orchestrator.http.requests.bodies import GroupedMove, MovesBody, PlanBody, PlansBody
from orchestrator.http.requests.writes import Writes, actor_of, as_answer, id_of, used_otherwise
from orchestrator.new_requests import RequestSpec, new_id, requests_of
from state.model.entities import OperationKind, Request
from state.model.plan import Plan
from state.settings.topics import chains_of

WRITING_SECONDS = 60.0
"""Before the answer is given up: no query is judged any more, and what was judged is written."""
ANSWERING_SECONDS = 5.0
"""Before the answer is given up: nothing is written any more, so that the answer still says what was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenPlan:
    """One plan with its hash."""

    plan: Plan
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """One query of a call."""

    move: GroupedMove
    spec: RequestSpec
    key: str | None
    earlier: Request | None
    """What the same call wrote before, where its answer was lost."""

    @property
    def query(self) -> str:
        return self.move.query


@dataclass(frozen=True)
class GroupMoves:
    """Both methods raise ``StoreError``, ``UnknownName`` and ``UsageError``; several threads may call them."""

    writes: Writes

    def plan(self, requested: PlansBody) -> Sequence[Mapping[str, object]]:
        """The plans and their hashes, as ``/api/plan`` gives each."""
        return [{"plan": each.plan.as_json(), "hash": each.hash} for each in self.planned(requested)]

    def planned(self, requested: PlansBody) -> list[SeenPlan]:
        """One plan for each query, in the order in which they would begin; changes nothing, reads the clusters."""
        _check_once(requested.queries)
        for name in requested.queries:
            self.writes.target(OperationKind(requested.kind), name, requested.to)  # before the first cluster is read
        order = chains_of(self.writes.settings).in_order(requested.queries)
        plans = (
            PlanBody(kind=requested.kind, query=name, to=requested.to, consents=requested.consents) for name in order
        )
        return [SeenPlan(plan=plan, hash=seen) for plan, seen in map(self.writes.planned, plans)]

    def move(
        self, requested: MovesBody, who: Principal, key: str | None, until: float = math.inf
    ) -> Mapping[str, object]:
        """Request all of them: ``group``, the ``requests`` that were written, and who was ``refused`` and why.

        With a ``key`` each query is requested once, also where an answer was lost half-way. ``until`` is when
        the answer is given up, on the monotonic clock: what cannot be judged and written before is refused.
        Raises ``Refused`` where no controller leads, and where not one query can be requested.
        """
        _check_once([each.query for each in requested.moves])
        group = new_id(self.writes.store.now()) if key is None else f"group-{id_of(who, key)}"
        self._check_key(requested, group)
        parts = self._parts(requested, who, key)
        if any(each.earlier is None for each in parts):
            self.writes.check_led()
        refused = self._judged(parts, group, until - WRITING_SECONDS)
        requests = self._written(parts, who, group, refused, until - ANSWERING_SECONDS)
        if not requests:
            first = refused[parts[0].query]
            raise Refused(f"none of {len(parts)} was requested: {first}", hint="request the plans again")
        left = [{"query": each.query, "text": refused[each.query]} for each in parts if each.query in refused]
        return {"group": group, "requests": [as_answer(each) for each in requests], "refused": left}

    def _check_key(self, requested: MovesBody, group: str) -> None:
        """Raises ``UsageError`` where the same key requested a query that is not among these."""
        if {each.query for each in self.writes.store.requests_of(group)} - {each.query for each in requested.moves}:
            raise used_otherwise()

    def _parts(self, requested: MovesBody, who: Principal, key: str | None) -> list[_Part]:
        """Each query with what it got before, in the order in which they have to be written: upstream first.

        Raises ``UsageError`` where one of them may not be moved so, or the key was used for something else.
        """
        kind, by_name = OperationKind(requested.kind), {each.query: each for each in requested.moves}
        targets = {name: self.writes.target(kind, name, each.to) for name, each in by_name.items()}
        order = chains_of(self.writes.settings).in_order(list(by_name))
        sizes = self.writes.settings.operations.waves
        waves = waves_of(order, sizes) if sizes and len(order) > 1 else {}
        parts = []
        for name in order:
            spec = self._spec(requested, by_name[name], targets[name], who, waves)
            own = None if key is None else f"{key}\n{name}"  # no key of a single request has such a letter
            earlier = self.writes.earlier(spec, who, own)
            parts.append(_Part(move=by_name[name], spec=spec, key=own, earlier=earlier))
        return parts

    def _judged(self, parts: Sequence[_Part], group: str, until: float) -> dict[str, str]:
        """By query, why it is not requested."""
        rows: list[Request] = []
        turns = Turns(self.writes.store, chains_of(self.writes.settings).upstream, {group: rows})
        refused: dict[str, str] = {}
        for each in parts:
            row = each.earlier
            if row is None:
                (row,) = requests_of(self.writes.store, each.spec, group=group)
                is_there = self._is_there(each)
                why = self._refusal(each, row, turns, until, is_there=is_there)
                if why is not None:
                    refused[each.query] = why
                    row = replace(row, refused=f"{THERE}: {why}" if is_there else why)
            rows.append(row)
        return refused

    def _is_there(self, part: _Part) -> bool:
        """Whether the query is where it was to go from where it was seen."""
        placed, wanted = self.writes.store.assignment(part.query), part.move.to
        if wanted is None and part.spec.kind is OperationKind.FAILBACK:
            wanted = part.spec.targets[part.query]
        query = self.writes.settings.queries[part.query]
        return placed is not None and placed.cluster == (wanted or default_target(query, part.move.expect_active))

    def _refusal(self, part: _Part, row: Request, turns: Turns, until: float, *, is_there: bool) -> str | None:
        """Why a query is not requested; one that is there already follows no other."""
        if self.writes.clock.monotonic() >= until:
            return _LATE
        turn = None if is_there else turns.turn_of(row)
        if turn is not None and turn.never:
            return turn.text
        try:
            self.writes.check_seen(part.spec, expect_active=part.move.expect_active, seen=part.move.plan)
        except Refused as why:
            return str(why)
        return None

    def _written(
        self, parts: Sequence[_Part], who: Principal, group: str, refused: dict[str, str], until: float
    ) -> list[Request]:
        """The requests of those that are not refused; where one cannot be written, all behind it are ``refused``."""
        requests: list[Request] = []
        for index, each in enumerate(parts):
            if each.query in refused:
                continue
            try:
                if each.earlier is None and self.writes.clock.monotonic() >= until:
                    raise Refused(_LATE)
                requests.append(each.earlier or self.writes.write(each.spec, who, each.key, group=group))
            except Refused as why:
                behind = [other for other in parts[index:] if other.earlier is None]
                refused.update({other.query: refused.get(other.query, str(why)) for other in behind})
        return requests

    def _spec(
        self, requested: MovesBody, move: GroupedMove, target: str, who: Principal, waves: Mapping[str, int]
    ) -> RequestSpec:
        return RequestSpec(
            kind=OperationKind(requested.kind), targets={move.query: target},
            expect_active={move.query: move.expect_active}, actor=actor_of(who), reason=requested.reason,
            consents=requested.consents, runs={move.query: run_of(self.writes.store, move.query)},
            within=timedelta(seconds=requested.within_seconds),
            parameters={WAVE: waves[move.query]} if move.query in waves else {},
        )  # fmt: skip


def _check_once(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{', '.join(twice)} is named twice", hint="name each query once")


_LATE = "the time for the answer was over before it was its turn: it was not requested; send it again"
