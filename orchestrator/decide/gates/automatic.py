"""Whether a query may be failed over now without a person's request: gates like all others, and nothing else decides.

Three of them deserve a word. *A pause outlives its end*: a cluster that was believed DOWN before the pause ended, by
``resume`` or by its time, moves nothing afterwards, because ``resume`` never starts a failover. Only a cluster that
was seen well since and went down again does, or a person who types ``failover``. A controller that starts, or was
frozen, forgets what it saw, but not since when the cluster is down. *The verdict is this leader's own, and new*: what
another controller believed is a hint for a page, not a reason to act. *The old cluster's return changes nothing*: a
query leaves the cluster where it is only when that cluster is down, wherever its home may be.

No manual verb has these gates: an operator may always act.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from orchestrator.decide.gates import checks
from orchestrator.decide.gates.gate import Gate, answer
from orchestrator.decide.move_facts import MoveFacts
from orchestrator.decide.phases import BEHIND_COMMIT
from orchestrator.decide.times import iso
from state.model.automation import AUTOMATIC, Pause
from state.model.cluster_status import GONE, WELL, ClusterStatus, Verdict
from state.model.entities import Operation
from state.settings.keys import Query

FIRST_RETRY = timedelta(minutes=1)
MOST_DOUBLINGS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Cooldown:
    """Until when, and because of which operation."""

    operation: str
    until: datetime
    moved: bool
    """Whether that operation moved the query; else it was an attempt."""


def cooldown_of(operations: Iterable[Operation], acknowledged: Collection[str], cooldown: timedelta) -> Cooldown | None:
    """What is against another automatic move, over or not; ``operations`` are the query's, newest first.

    After a move the policy's ``cooldown`` must pass, or a person acknowledge it; a move that a person made since counts
    as acknowledgement, for that person has looked. A query is moved once the move is committed, verified or not: it is
    placed elsewhere from then on. After an attempt that did not move the query (a gate refused it behind the fence, a
    checkpoint could not be made) the next one comes after a minute. Then it is two, then four, never more than the
    cool-down. The cluster is still down, and what was in the way may be gone. But each attempt stops the query again.
    So that minute passes however short the cool-down is.
    """
    attempts: list[tuple[str, datetime]] = []
    for operation in operations:
        if operation.id in acknowledged:
            break
        if operation.actor != AUTOMATIC:
            if operation.phase in BEHIND_COMMIT:
                break
        elif operation.ended_at is not None:
            if operation.phase in BEHIND_COMMIT:
                moved = Cooldown(operation=operation.id, until=operation.ended_at + cooldown, moved=True)
                return max(filter(None, (moved, _retry(attempts, cooldown))), key=lambda each: each.until)
            attempts.append((operation.id, operation.ended_at))
    return _retry(attempts, cooldown)


def _retry(attempts: list[tuple[str, datetime]], cooldown: timedelta) -> Cooldown | None:
    """Attempts of the last cool-down make the pause longer; older ones are forgotten."""
    if not attempts:
        return None
    newest, ended_at = attempts[0]
    longest = max(cooldown, FIRST_RETRY)
    counted = sum(1 for _, at in attempts if ended_at - at < longest)
    pause = min(longest, FIRST_RETRY * 2 ** min(counted - 1, MOST_DOUBLINGS))
    return Cooldown(operation=newest, until=ended_at + pause, moved=False)


VERDICT_VALID = timedelta(seconds=10)
"""A verdict that was last given longer ago than this says nothing of now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AutomaticFacts:
    """What automatic mode looks at besides the facts of the move itself."""

    facts: MoveFacts
    """As before any move; without consents, for no person gave any."""
    now: datetime
    """The store's clock, like every time here."""
    term: int | None
    """The term in which this process leads, if it does; whatever it writes is refused once another leads."""
    statuses: Mapping[str, ClusterStatus]
    """By cluster."""
    pauses: tuple[Pause, ...]
    operations: tuple[Operation, ...]
    """The query's, newest first."""
    acknowledged: frozenset[str]
    """Ids of operations that a person has seen."""

    @property
    def cooldown(self) -> Cooldown | None:
        return cooldown_of(self.operations, self.acknowledged, self.facts.policy.cooldown)

    def verdict(self, cluster: str) -> ClusterStatus | None:
        """The present cluster status of this leader."""
        status = self.statuses.get(cluster)
        if status is None or self.now - status.decided_at > VERDICT_VALID:
            return None
        return status if self.term == status.term else None


def automatic_on(given: AutomaticFacts) -> Gate:
    on = given.facts.policy.automatic
    return answer(
        "automatic-on",
        on,
        "on" if on else "off",
        "on",
        f"automatic failover is on for {given.facts.query}",
        f"policy.automatic is off for {given.facts.query}: to move it, type tideover failover {given.facts.query}",
    )


def not_paused(given: AutomaticFacts) -> Gate:
    pause = pause_in_force(given.pauses, given.facts.query, given.now)
    return answer(
        "not-paused",
        pause is None,
        "no pause" if pause is None else f"until {iso(pause.until) or 'resumed'}",
        "no pause",
        "automatic failover is not paused",
        "" if pause is None else paused_text(pause),
    )


def fresh_verdict(given: AutomaticFacts) -> Gate | None:
    """Silent where no pause ever ended, or the cluster is not believed down.

    A pause that ended at a time to come, by a clock that was set back since, ended just now. Until that time has come,
    what goes down is left to a person.
    """
    covering = [pause for pause in given.pauses if pause.covers(given.facts.query)]
    over = [pause.over_at for pause in covering if not pause.is_in_force(given.now)]
    ended = max((min(at, given.now) for at in over if at is not None), default=None)
    status = given.verdict(given.facts.source)
    if ended is None or status is None or status.verdict not in GONE:
        return None
    down = status.down_since or status.since
    return answer(
        "fresh-verdict",
        down > ended,
        iso(down),
        f"after {iso(ended)}",
        f"{given.facts.source} went down after the pause ended",
        f"{given.facts.source} was already down when the pause ended, so {given.facts.query} is not moved "
        "automatically: "
        f"tideover failover {given.facts.query}",
    )


def cooled_down(given: AutomaticFacts) -> Gate:
    in_force = given.cooldown
    return answer(
        "cooled-down",
        in_force is None or in_force.until <= given.now,
        "no cool-down" if in_force is None else iso(in_force.until),
        "no cool-down" if in_force is None else f"before {iso(given.now)}",
        "no cool-down" if in_force is None else f"the cool-down after operation {in_force.operation} is over",
        "" if in_force is None else cooldown_text(in_force, given.facts.query),
    )


def cluster_down(given: AutomaticFacts) -> Gate:
    cluster, status = given.facts.source, given.verdict(given.facts.source)
    down = status is not None and status.verdict in GONE
    return answer(
        "cluster-down",
        down,
        status.verdict.value if status else "no verdict",
        "DOWN or NOT_HERE",
        f"{cluster} is {'not behind its endpoint' if _is_elsewhere(status) else 'down'}{_because(status)}",
        f"{cluster} is not known to be down: {status.verdict.value if status else 'no verdict'}{_because(status)}",
    )


def standby_up(given: AutomaticFacts) -> Gate:
    cluster, status = given.facts.target, given.verdict(given.facts.target)
    return answer(
        "standby-up",
        is_usable(status),
        status.verdict.value if status else "no verdict",
        "UP, or DEGRADED with every partition readable",
        f"{cluster} can take over",
        f"{cluster} cannot take over: {status.verdict.value if status else 'no verdict'}{_because(status)}",
    )


AUTOMATIC_GATES: tuple[Callable[[AutomaticFacts], Gate | None], ...] = (
    automatic_on,
    not_paused,
    fresh_verdict,
    cooled_down,
    cluster_down,
    standby_up,
)


def judge_automatic(given: AutomaticFacts) -> tuple[Gate, ...]:
    """Every gate of automatic mode, then every gate of a failover that its facts can answer; all must hold.

    No person is there to accept what is unknown, so it refuses before the query is stopped, and not behind its fence.
    """
    own = tuple(gate for check in AUTOMATIC_GATES if (gate := check(given)) is not None)
    return own + checks.judge_move(replace(given.facts, attended=False))


@dataclass(frozen=True, kw_only=True, slots=True)
class Recheck:
    """What automatic mode thinks of a move that it has begun, while the old run is not proven stopped."""

    against: str = ""
    """Why the query shall stay where it is, in one sentence; empty where nothing speaks against the move."""
    doubt: str = ""
    """Why the move goes no further for now: nothing says whether its cluster is still down."""


def recheck(given: AutomaticFacts) -> Recheck:
    """Whether a move that no person requested should still be made; only what is known for sure calls it off.

    A leader that has just begun to lead has no verdict of its own, which is no reason to wait. A verdict that is
    neither DOWN nor well is one: mostly it is the one or the other within seconds.
    """
    for gate in (automatic_on(given), not_paused(given)):
        if not gate.ok:
            return Recheck(against=f"{gate.name}: {gate.text}")
    status, gate = given.verdict(given.facts.source), cluster_down(given)
    if status is None or gate.ok:
        return Recheck()
    text = f"{gate.name}: {gate.text}"
    return Recheck(against=text) if status.verdict in WELL else Recheck(doubt=text)


def pause_in_force(pauses: tuple[Pause, ...], query: str, now: datetime) -> Pause | None:
    """The pause that holds for a query; of two, the one that ends last."""
    holding = [pause for pause in pauses if pause.covers(query) and pause.is_in_force(now)]
    endless = next((pause for pause in holding if pause.until is None), None)
    return endless or max(holding, key=lambda pause: pause.until or now, default=None)


def default_target(query: Query, active: str) -> str:
    """The next cluster in the query's order, beginning again after the last."""
    order = query.clusters
    return order[(order.index(active) + 1) % len(order)] if active in order else order[0]


def standby_of(settings: Query, active: str, statuses: Mapping[str, ClusterStatus]) -> str:
    """Where an automatic failover goes: the next cluster in the query's order that can take over, else the next."""
    order, at = settings.clusters, settings.clusters.index(active) if active in settings.clusters else -1
    others = [cluster for cluster in (*order[at + 1 :], *order[: max(at, 0)]) if cluster != active]
    return next((cluster for cluster in others if is_usable(statuses.get(cluster))), others[0])


def is_usable(status: ClusterStatus | None) -> bool:
    """Whether a cluster can take queries over: each partition has a leader that answers."""
    if status is None:
        return False
    whole = (status.leaderless, status.unreadable) == (0, 0)
    return status.verdict is Verdict.UP or (status.verdict is Verdict.DEGRADED and whole)


def paused_text(pause: Pause) -> str:
    """One pause as a sentence."""
    scope, resume = ("all queries", "--all") if pause.scope == "*" else (pause.scope, pause.scope)
    who = f"{pause.actor} paused automatic failover of {scope}"
    end = f"until {iso(pause.until)}" if pause.until else f"until tideover resume {resume}"
    return f"{who} {end}" + (f": {pause.reason}" if pause.reason else "")


def cooldown_text(in_force: Cooldown, query: str) -> str:
    """One cool-down as a sentence."""
    what = f"moved {query} automatically" if in_force.moved else f"failed to move {query} automatically"
    next_one = "next automatic move" if in_force.moved else "next attempt"
    return (
        f"operation {in_force.operation} {what}; {next_one} after {iso(in_force.until)}; "
        f"to allow it now: tideover ack {query}"
    )


def _is_elsewhere(status: ClusterStatus | None) -> bool:
    return status is not None and status.verdict is Verdict.NOT_HERE


def _because(status: ClusterStatus | None) -> str:
    return f" since {iso(status.since)}: {status.reasons[0]}" if status and status.reasons else ""
