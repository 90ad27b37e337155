"""Whether a query may be failed over now with nobody asking for it: gates like all others, and nothing else decides.

Three of them deserve a word. *A pause outlives its end*: a cluster that was believed DOWN before the pause ended, by
``resume`` or by its time, moves nothing afterwards, because ``resume`` never fails over by itself; only a cluster that
was seen well since and went down anew does, or a person who types ``failover``. A controller that starts, or stood
still, forgets what it saw, but not since when the cluster is down. *The verdict is this leader's own, and new*:
what another controller believed is a hint for a page, not a reason to act. *The old cluster's return changes nothing*:
a query leaves the cluster where it is only when that cluster is down, wherever its home may be.

Manual verbs ask none of these gates: an operator may always act.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.decide import gates
from orchestrator.decide.cooldown import Cooldown, cooldown_of
from orchestrator.decide.facts import Facts
from orchestrator.decide.gate import Gate, answer
from orchestrator.decide.times import iso
from state.automation import Pause
from state.model import Operation
from state.settings import Query
from state.sighting import Belief, Verdict

VERDICT_STANDS = timedelta(seconds=10)
"""A verdict that was last given longer ago than this says nothing of now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """What automatic mode looks at besides the facts of the move itself."""

    facts: Facts
    """As before any move; without consents, for nobody gave any."""
    now: datetime
    """The store's clock, like every time here."""
    term: int | None
    """The term in which this process leads; None while it does not."""
    beliefs: Mapping[str, Belief]
    """By cluster."""
    pauses: tuple[Pause, ...]
    operations: tuple[Operation, ...]
    """The query's, newest first."""
    acknowledged: frozenset[str]
    """Ids of operations that a person has seen."""

    @property
    def cooldown(self) -> Cooldown | None:
        return cooldown_of(self.operations, self.acknowledged, self.facts.policy.cooldown)

    def verdict(self, cluster: str) -> Belief | None:
        """The present belief of this leader; of whoever leads, where this process does not."""
        belief = self.beliefs.get(cluster)
        if belief is None or self.now - belief.decided_at > VERDICT_STANDS:
            return None
        return belief if self.term in {None, belief.term} else None


def automatic_on(given: Circumstances) -> Gate:
    on = given.facts.policy.automatic
    return answer(
        "automatic-on",
        on,
        "on" if on else "off",
        "on",
        f"policy lets {given.facts.query} be moved automatically",
        f"policy.automatic is off for {given.facts.query}: a person decides",
    )


def leading(given: Circumstances) -> Gate:
    ok = given.term is not None
    return answer(
        "leading",
        ok,
        f"term {given.term}" if ok else "no term",
        "a term",
        "this controller leads",
        "another controller leads, or none does",
    )


def not_paused(given: Circumstances) -> Gate:
    pause = pause_in_force(given.pauses, given.facts.query, given.now)
    return answer(
        "not-paused",
        pause is None,
        "no pause" if pause is None else f"until {iso(pause.until) or 'resumed'}",
        "no pause",
        "nobody paused it",
        "" if pause is None else paused_text(pause),
    )


def fresh_verdict(given: Circumstances) -> Gate | None:
    """Silent where no pause ever ended, or the cluster is not believed down.

    A pause that ended at a time to come, by a clock that was set back since, ended just now: until that time has come,
    what goes down is left to a person.
    """
    covering = [pause for pause in given.pauses if pause.covers(given.facts.query)]
    over = [pause.over_at for pause in covering if not pause.is_in_force(given.now)]
    ended = max((min(at, given.now) for at in over if at is not None), default=None)
    belief = given.verdict(given.facts.source)
    if ended is None or belief is None or belief.verdict is not Verdict.DOWN:
        return None
    down = belief.down_since or belief.since
    return answer(
        "fresh-verdict",
        down > ended,
        iso(down),
        f"after {iso(ended)}",
        f"{given.facts.source} went down after the pause had ended",
        f"{given.facts.source} was down before the pause ended, and resuming moves nothing by itself: "
        f"tideover failover {given.facts.query}",
    )


def cooled_down(given: Circumstances) -> Gate:
    stands = given.cooldown
    return answer(
        "cooled-down",
        stands is None or stands.until <= given.now,
        "no cool-down" if stands is None else iso(stands.until),
        "no cool-down" if stands is None else f"before {iso(given.now)}",
        "no cool-down" if stands is None else f"the cool-down after operation {stands.operation} is over",
        "" if stands is None else cooldown_text(stands, given.facts.query),
    )


def cluster_down(given: Circumstances) -> Gate:
    cluster, belief = given.facts.source, given.verdict(given.facts.source)
    down = belief is not None and belief.verdict is Verdict.DOWN
    return answer(
        "cluster-down",
        down,
        belief.verdict.value if belief else "no verdict",
        Verdict.DOWN.value,
        f"{cluster} is down{_because(belief)}",
        f"{cluster} is not believed down: {belief.verdict.value if belief else 'no verdict'}{_because(belief)}",
    )


def standby_up(given: Circumstances) -> Gate:
    cluster, belief = given.facts.target, given.verdict(given.facts.target)
    return answer(
        "standby-up",
        is_usable(belief),
        belief.verdict.value if belief else "no verdict",
        "UP, or DEGRADED with every partition readable",
        f"{cluster} is there to take over",
        f"{cluster} cannot take over: {belief.verdict.value if belief else 'no verdict'}{_because(belief)}",
    )


AUTOMATIC_GATES: tuple[Callable[[Circumstances], Gate | None], ...] = (
    automatic_on,
    leading,
    not_paused,
    fresh_verdict,
    cooled_down,
    cluster_down,
    standby_up,
)


def judge(given: Circumstances) -> tuple[Gate, ...]:
    """Every gate of automatic mode, then every gate of a failover that its facts can answer; all must hold."""
    own = tuple(gate for check in AUTOMATIC_GATES if (gate := check(given)) is not None)
    return own + gates.judge(given.facts)


def pause_in_force(pauses: tuple[Pause, ...], query: str, now: datetime) -> Pause | None:
    """The pause that holds for a query; of two, the one that ends last."""
    holding = [pause for pause in pauses if pause.covers(query) and pause.is_in_force(now)]
    endless = next((pause for pause in holding if pause.until is None), None)
    return endless or max(holding, key=lambda pause: pause.until or now, default=None)


def standby_of(settings: Query, active: str, beliefs: Mapping[str, Belief]) -> str:
    """Where an automatic failover goes: the next cluster in the query's order that can take over, else the next."""
    order, at = settings.clusters, settings.clusters.index(active) if active in settings.clusters else -1
    others = [cluster for cluster in (*order[at + 1 :], *order[: max(at, 0)]) if cluster != active]
    return next((cluster for cluster in others if is_usable(beliefs.get(cluster))), others[0])


def is_usable(belief: Belief | None) -> bool:
    """Whether a cluster can take queries over: each partition has a leader that answers."""
    if belief is None:
        return False
    whole = (belief.leaderless, belief.unreadable) == (0, 0)
    return belief.verdict is Verdict.UP or (belief.verdict is Verdict.DEGRADED and whole)


def paused_text(pause: Pause) -> str:
    """One pause as a sentence."""
    who = f"{pause.actor} paused {'every query' if pause.scope == '*' else pause.scope}"
    end = f"until {iso(pause.until)}" if pause.until else "until somebody resumes"
    return f"{who} {end}" + (f": {pause.reason}" if pause.reason else "")


def cooldown_text(stands: Cooldown, query: str) -> str:
    """One cool-down as a sentence."""
    what = f"moved {query}" if stands.moved else f"tried to move {query}, in vain,"
    end = f"left alone until {iso(stands.until)}, or tideover ack {query}"
    return f"operation {stands.operation} {what} automatically: {end}"


def _because(belief: Belief | None) -> str:
    return f" since {iso(belief.since)}: {belief.reasons[0]}" if belief and belief.reasons else ""
