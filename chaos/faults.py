"""What can be done to the environment, and when: values that a scenario is written in. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

PRIMARY, STANDBY = "east", "west"
EAST = ("east-1", "east-2", "east-3")
CONTROLLERS = ("controller-one", "controller-two")
RUNNERS = ("runner-a", "runner-b")
WORKERS = ("worker-1", "worker-2")
LEADER = "leader"
"""Stands for whichever controller leads when it is struck, and then for the same one, until one is struck again."""

OPEN_PHASES = frozenset({"CONFIRMED", "FENCING", "RESOLVING", "PREPARING", "STARTING", "VERIFYING"})


class Act(StrEnum):
    """What is done."""

    KILL = "kill"
    FREEZE = "freeze"
    THAW = "thaw"
    START = "start"
    CUT = "cut"
    """Takes services off a network."""
    JOIN = "join"
    """Puts them back."""
    SLOW = "slow"
    """Makes the link delay and stall."""
    CLEAR = "clear"
    """Makes the link forward at once again."""
    FILL = "fill"
    """Fills a broker's disk."""
    EMPTY = "empty"
    """Starts it again on an empty disk."""
    CONSENT = "consent"
    """A person types the failover with a consent."""
    CLOCK = "clock ahead"
    """Nothing is done: that a fault which an environment begins with is really there is looked at."""
    SWITCHOVER = "switchover"
    """A person types it for all queries, and waits for its end."""
    DRILL = "drill"
    """The same with a drill."""
    FAILBACK = "failback"
    """The same with a failback, once its plan is not refused any more."""
    PRODUCE = "producers by"
    """From now on the service that is named sends, and no other one."""
    TURN = "replication reversed by"
    """What only the primary has is reported; then the replicator that is named copies from the standby, behind what
    both have. The other one must be dead."""


STRIKES = frozenset({Act.KILL, Act.FREEZE})
HEALS = frozenset({Act.START, Act.THAW, Act.JOIN, Act.CLEAR, Act.EMPTY})
TYPED = frozenset({Act.SWITCHOVER, Act.DRILL, Act.FAILBACK})
"""Verbs of Tideover's that a person types while nothing forces anybody to."""
NO_WAIT = "--no-wait"
"""As ``detail`` of a verb: the controllers see it through, and the next step meets it under way."""


class When(StrEnum):
    """What is waited for before a step."""

    AT_ONCE = "at once"
    WELL = "all is well"
    """A controller leads, both clusters are UP, and every query runs on the primary and could move."""
    DOWN = "the primary is DOWN"
    MOVING = "a move is under way"
    MOVED = "every query is on the standby"
    BLOCKED = "every move is blocked"
    """Nothing proves that the runner, which a container of its own hid from the others, has ended."""
    REFUSED = "the move was refused"
    """And no move is open any more: of one query a fence may last longer than of the others."""
    BACK = "the primary is UP again"
    """It was left, and every query is on the standby."""


@dataclass(frozen=True, kw_only=True)
class FaultStep:
    """One act on some services, once its moment has come."""

    act: Act
    on: tuple[str, ...] = ()
    network: str = ""
    detail: str = ""
    """Of SLOW `DELAY_MS LOSS_PERCENT`; of CONSENT the gate's consent; of CLOCK the seconds; of a verb its option."""
    when: When = When.AT_ONCE
    after_seconds: float = 0.0
    """Waited for once the moment has come."""

    @property
    def during(self) -> str:
        """When load is shown while a verb is waited for, in words; empty where none is."""
        return f"during the {self.act.value}" if self.act in TYPED and self.detail != NO_WAIT else ""

    @property
    def strikes_primary(self) -> bool:
        """Whether all of the primary dies or freezes by it."""
        return self.act in STRIKES and {*EAST} <= {*self.on}

    def __str__(self) -> str:
        where = f" {'from' if self.act is Act.CUT else 'to'} {self.network}" if self.network else ""
        what = " ".join(word for word in (self.act.value, ", ".join(self.on), self.detail) if word)
        moment = "" if self.when is When.AT_ONCE else f" when {self.when.value}"
        later = f" after {self.after_seconds:g} s" if self.after_seconds else ""
        return f"{what}{where}{moment}{later}"


@dataclass(frozen=True, kw_only=True)
class Action:
    """A step that was done."""

    begun: float
    """Seconds after the first deed was begun."""
    done: float
    """The same when it was done: the commands of containers take their time."""
    text: str
    act: Act
    on: tuple[str, ...]
    """The services that it came to, a leader by its name."""
    when: When
    found: str = ""
    """What it met, where that has to be there for the deed to show anything."""

    @property
    def strikes_primary(self) -> bool:
        """Whether the primary died or froze by it."""
        return self.act in STRIKES and {*EAST} <= {*self.on}

    @property
    def requests_leave(self) -> bool:
        """Whether a person requested by it that the queries leave the primary."""
        return self.act is Act.SWITCHOVER

    @property
    def returns_primary(self) -> bool:
        """Whether the primary came back by it."""
        return self.act in HEALS and {*EAST} <= {*self.on}

    @property
    def strikes_controller(self) -> bool:
        """Whether one controller did, so that the other one has to lead."""
        return self.act in STRIKES and len({*CONTROLLERS} & {*self.on}) == 1


@dataclass(frozen=True)
class Observation:
    """One situation as `tideover watch -o json` prints it."""

    status: Mapping[str, Any]

    @property
    def at(self) -> str:
        return str(self.status["at"])

    @property
    def leader(self) -> str | None:
        """The name of the leading controller."""
        leader = self.status["leader"]
        return leader["name"] if leader else None

    def verdict(self, cluster: str) -> str | None:
        """What is believed of a cluster."""
        return self._belief(cluster).get("verdict")

    def is_up(self, cluster: str, since: float) -> bool:
        """Whether a cluster is believed to be UP, and that only since a time, as Unix has it."""
        belief = self._belief(cluster)
        return belief.get("verdict") == "UP" and datetime.fromisoformat(belief["since"]).timestamp() >= since

    def has_progressed(self, since: float) -> bool:
        """Whether every query has made progress since a time, as Unix has it: a runner that is gone reports none."""
        at = datetime.fromisoformat(self.at).timestamp()
        ages = [each["progress_age_seconds"] for each in self.status["queries"]]
        return all(age is not None and at - age >= since for age in ages)

    @property
    def phases(self) -> Sequence[str]:
        """Of the open operations."""
        return [str(each["phase"]) for each in self.status["operations"]]

    @property
    def all_run(self) -> bool:
        """Whether every query runs, wherever, and nothing is open."""
        queries = self.status["queries"]
        running = all(each["state"] == "running" for each in queries)
        return bool(queries) and running and not self.status["operations"]

    def all_on(self, cluster: str) -> bool:
        """Whether every query runs on a cluster and nothing is open."""
        return self.all_run and all(each["cluster"] == cluster for each in self.status["queries"])

    @property
    def all_ready(self) -> bool:
        """Whether the last readiness check found that every query could move."""
        return all(each["ready"] is True for each in self.status["queries"])

    def _belief(self, cluster: str) -> Mapping[str, Any]:
        return next((each for each in self.status["clusters"] if each["cluster"] == cluster), {})

    def shows(self, when: When, target: str = STANDBY, source: str = PRIMARY) -> bool:
        """Whether a moment has come."""
        match when:
            case When.AT_ONCE:
                return True
            case When.WELL:
                up = self.verdict(source) == self.verdict(target) == "UP"
                return self.leader is not None and up and self.all_on(source) and self.all_ready
            case When.DOWN:
                return self.verdict(source) == "DOWN"
            case When.MOVING:
                return any(phase in OPEN_PHASES for phase in self.phases)
            case When.MOVED:
                return self.all_on(target)
            case When.BACK:
                return self.verdict(source) == "UP" and self.all_on(target)
            case When.BLOCKED:
                return self.phases == ["BLOCKED"] * len(self.status["queries"]) != []
            case When.REFUSED:
                status = any(each["kind"] == "not-moved" for each in self.status["events"])
                refused = status or bool(self.status["cooldowns"])
                return self.verdict(source) == "DOWN" and refused and not self.status["operations"]
