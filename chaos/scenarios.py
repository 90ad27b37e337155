"""The scenarios: faults and what shall have become of them in the end. A table of values; nothing here acts."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from chaos.faults import CONTROLLERS, EAST, HEALS, LEADER, NO_WAIT, PRIMARY, STANDBY, Act, FaultStep, When

STAYING = "while nothing moved"
"""When load was shown on the primary, in words."""
TIMES = {0: "never", 1: "once", 2: "twice"}
SECURED = "docker-compose.secured.yml"
"""The compose file with which both clusters are secured."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One test run and its expected end."""

    name: str
    title: str
    steps: tuple[FaultStep, ...]
    moves: bool
    """Whether every query shall leave the primary, once; else none may have left."""
    verdicts: frozenset[str] = frozenset()
    """Of the primary: each of these must have been given."""
    never: frozenset[str] = frozenset()
    """Of either cluster: none of these may have been given."""
    either: frozenset[str] = frozenset()
    """Of one of the clusters, whichever: one of these must have been given."""
    runner: str = "a"
    """Who hosts the queries in the end."""
    consented: bool = False
    """A person answered for what is missing on the standby."""
    parts: tuple["Scenario", ...] = ()
    """Whose steps come first, one after the other; each is judged alone, and moves nothing."""
    before_commit: bool = False
    """Whether what is done while a move is under way must come before its point of no return."""
    returns: bool = False
    """The primary comes back and is UP again, and all that it held comes to the standby. The replicator may append what
    was read already, so repeats as announced are right."""
    may_stay: bool = False
    """Whether a query may as well stay: its move is called off if the primary answers before its old run is proven
    stopped, and finished from then on."""
    files: tuple[str, ...] = ()
    """Compose files beside the main one."""
    hold_seconds: float = 30.0
    """How long it is looked on where nothing shall move, after the last step, or go back, once the primary is UP."""
    heal_seconds: float = 0.0
    """As a part: how long the fault lasts after the last step, though clusters and queries are well."""

    @property
    def comes_home(self) -> bool:
        """Whether every query shall go back to the primary, which holds everything in the end."""
        return any(step.act is Act.FAILBACK for step in self.steps)

    @property
    def drills(self) -> bool:
        """Whether every query is drilled, and nothing of it touched."""
        return any(step.act is Act.DRILL for step in self.steps)

    @property
    def strikes_primary(self) -> bool:
        """Whether all of the primary dies or freezes."""
        return any(step.strikes_primary for step in self.steps)

    @property
    def end(self) -> str:
        """The cluster on which every query shall be in the end."""
        return STANDBY if self.moves and not self.comes_home else PRIMARY

    @property
    def moved_by(self) -> tuple[frozenset[str], ...]:
        """For each move of a query, in order, the kinds of operation that it may be.

        A switchover whose primary dies is finished, or goes back and is followed by a failover: both are right.
        """
        if not self.moves:
            return ()
        planned = {"switchover"} if any(step.act is Act.SWITCHOVER for step in self.steps) else set[str]()
        forced = {"failover"} if self.strikes_primary or not planned else set[str]()
        return (frozenset(planned | forced), *([frozenset({"failback"})] if self.comes_home else []))

    @property
    def landed(self) -> str:
        """When load is shown after the last move, in words; empty where nothing moves."""
        if self.may_stay:
            return "after the move"
        return f"on {self.end} after the {'failback' if self.comes_home else 'move'}" if self.moves else ""

    @property
    def shown(self) -> list[str]:
        """When load must have been shown, in words."""
        during = [step.during for step in self.steps if step.during]
        return [*self.counted_at.values(), *during, *([self.landed] if self.moves else [])]

    @property
    def calm_steps(self) -> int:
        """How many of the first steps may move nothing, where later ones do."""
        return sum(len(part.steps) for part in self.parts)

    @property
    def counted_at(self) -> Mapping[int, str]:
        """During the wait before which steps load is shown on the primary, and in which words the report says so.

        While the fault lasts where all stays, in each part too; else not: the primary is dead, or it is shown while
        a step waits for a verb.
        """
        if not self.parts:
            return {} if self.moves or self.drills else {self.loaded_step: STAYING}
        begins = accumulate((len(part.steps) for part in self.parts), initial=0)
        return {
            begun + part.loaded_step: f"{STAYING}, in part {number}, {part.name}"
            for number, (begun, part) in enumerate(zip(begins, self.parts, strict=False), 1)
        }

    @property
    def loaded_step(self) -> int:
        """The step that is waited for while load is shown: the first that heals.

        A frozen primary acknowledges nothing, and counting would keep it frozen for longer. So
        there it is the one after the last, which waits until all is well again.
        """
        still = self.strikes_primary
        healing = (number for number, step in enumerate(self.steps) if step.act in HEALS and not still)
        return next(healing, len(self.steps))


_KILL_EAST = FaultStep(act=Act.KILL, on=EAST)
_RUNNER_AND_CLUSTER = (
    FaultStep(act=Act.KILL, on=(*EAST, "runner-a")),
    FaultStep(act=Act.CONSENT, detail="unfenced", when=When.BLOCKED),
)
_DOWN = frozenset({"DOWN"})

SCENARIOS = (
    Scenario(
        name="kill-one-broker",
        title="One of three brokers is killed, and comes back",
        steps=(
            FaultStep(act=Act.KILL, on=("east-3",)),
            FaultStep(act=Act.START, on=("east-3",), after_seconds=40),
        ),
        moves=False, verdicts=frozenset({"DEGRADED"}), never=_DOWN,
    ),
    Scenario(
        name="kill-cluster", title="All brokers of the primary are killed", steps=(_KILL_EAST,), moves=True,
        verdicts=_DOWN,
    ),
    Scenario(
        name="freeze-cluster", title="All brokers of the primary stand still: they accept, and never answer",
        steps=(FaultStep(act=Act.FREEZE, on=EAST),), moves=True, verdicts=_DOWN,
    ),
    Scenario(
        name="cut-link",
        title="The link between the sites is cut for a while: controllers, runners and replicator see one cluster each",
        steps=(
            FaultStep(act=Act.CUT, on=("link", "controller-two", "runner-b"), network="east"),
            FaultStep(act=Act.CUT, on=("controller-one", "runner-a"), network="west"),
            FaultStep(act=Act.JOIN, on=("link", "controller-two", "runner-b"), network="east", after_seconds=45),
            FaultStep(act=Act.JOIN, on=("controller-one", "runner-a"), network="west"),
        ),
        moves=False, never=_DOWN, either=frozenset({"SUSPECT", "UNREACHABLE_FROM_HERE"}),
    ),
    Scenario(
        name="cut-controllers",
        title="Only the controllers are cut off from the primary",
        steps=(
            FaultStep(act=Act.CUT, on=CONTROLLERS, network="east"),
            FaultStep(act=Act.JOIN, on=CONTROLLERS, network="east", after_seconds=60),
        ),
        moves=False, verdicts=frozenset({"UNREACHABLE_FROM_HERE"}), never=_DOWN,
    ),
    Scenario(
        name="slow-link",
        title="The link is slow: 200 ms each way, and one chunk of twenty is lost; only replication goes over it",
        steps=(
            FaultStep(act=Act.SLOW, detail="200 5"),
            FaultStep(act=Act.CLEAR, after_seconds=60),
        ),
        moves=False, never=_DOWN,
    ),
    Scenario(
        name="full-disk",
        title="The disk of one broker is full",
        steps=(
            FaultStep(act=Act.FILL, on=("east-2",)),
            FaultStep(act=Act.EMPTY, on=("east-2",), after_seconds=45),
        ),
        moves=False, verdicts=frozenset({"DEGRADED"}), never=_DOWN, files=("conf/compose/small-disk.yml",),
    ),
    Scenario(
        name="replicator-dead",
        title="The replicator is dead when the primary dies: refused, then moved with consent",
        steps=(
            FaultStep(act=Act.KILL, on=("replicator",)),
            FaultStep(act=Act.KILL, on=EAST, after_seconds=90),
            FaultStep(act=Act.CONSENT, detail="loss", when=When.REFUSED, after_seconds=5),
        ),
        moves=True, verdicts=_DOWN, consented=True,
    ),
    Scenario(
        name="leader-dies-in-move",
        title="The leading controller is killed in the middle of a failover",
        steps=(_KILL_EAST, FaultStep(act=Act.KILL, on=(LEADER,), when=When.MOVING)),
        moves=True, verdicts=_DOWN,
    ),
    Scenario(
        name="leader-freezes-in-move",
        title="The leading controller freezes past its lease in the middle of a failover, and continues later",
        steps=(
            _KILL_EAST,
            FaultStep(act=Act.FREEZE, on=(LEADER,), when=When.MOVING),
            FaultStep(act=Act.THAW, on=(LEADER,), after_seconds=30),
        ),
        moves=True, verdicts=_DOWN,
    ),
    Scenario(
        name="store-away",
        title="PostgreSQL is away for a minute while all is well",
        steps=(
            FaultStep(act=Act.KILL, on=("postgres",)),
            FaultStep(act=Act.START, on=("postgres",), after_seconds=60),
        ),
        moves=False, never=_DOWN, heal_seconds=30,
    ),
    Scenario(
        name="store-freezes",
        title="PostgreSQL freezes for a minute while all is well: it accepts, and never answers",
        steps=(
            FaultStep(act=Act.FREEZE, on=("postgres",)),
            FaultStep(act=Act.THAW, on=("postgres",), after_seconds=60),
        ),
        moves=False, never=_DOWN, heal_seconds=30,
    ),
    Scenario(
        name="store-away-in-move",
        title="PostgreSQL is killed in the middle of a failover, and is away for a minute",
        steps=(
            _KILL_EAST,
            FaultStep(act=Act.KILL, on=("postgres",), when=When.MOVING),
            FaultStep(act=Act.START, on=("postgres",), after_seconds=60),
        ),
        moves=True, verdicts=_DOWN,
    ),
    Scenario(
        name="runner-and-cluster",
        title="The runner dies with its cluster, and a person consents; the warm runner takes over",
        steps=_RUNNER_AND_CLUSTER,
        moves=True, verdicts=_DOWN, runner="b",
    ),
    Scenario(
        name="worker-dies-in-move",
        title="A Spark worker is killed in the middle of a failover",
        steps=(_KILL_EAST, FaultStep(act=Act.KILL, on=("worker-1",), when=When.MOVING)),
        moves=True, verdicts=_DOWN,
    ),
    Scenario(
        name="primary-returns-early",
        title="The primary answers again in the middle of the failover: what is fenced goes, the rest stays",
        steps=(
            FaultStep(act=Act.FREEZE, on=EAST),
            FaultStep(act=Act.THAW, on=EAST, when=When.MOVING),
        ),
        moves=True, verdicts=_DOWN, returns=True, before_commit=True, may_stay=True,
    ),
    Scenario(
        name="primary-returns-late",
        title="The primary comes back after the failover: nothing moves back automatically",
        steps=(_KILL_EAST, FaultStep(act=Act.START, on=EAST, when=When.MOVED, after_seconds=5)),
        moves=True, verdicts=_DOWN, returns=True,
    ),
    Scenario(
        name="flapping",
        title="The primary freezes and continues again, four times: left once",
        steps=tuple(
            FaultStep(act=act, on=EAST, after_seconds=25)
            for _ in range(4)
            for act in (Act.FREEZE, Act.THAW)
        ),
        moves=True, verdicts=_DOWN, returns=True,
    ),
    Scenario(
        name="clock-off",
        title="The controller that is left has a clock an hour ahead, and the primary is killed",
        steps=(
            FaultStep(act=Act.CLOCK, on=("controller-two",), detail="3600"),
            FaultStep(act=Act.KILL, on=("controller-one",)),
            FaultStep(act=Act.KILL, on=EAST, after_seconds=30),
        ),
        moves=True, verdicts=_DOWN, files=("conf/compose/clock.yml",),
    ),
    Scenario(
        name="both-down",
        title="Both clusters are down; the standby comes back",
        steps=(
            FaultStep(act=Act.KILL, on=(*EAST, "west-1")),
            FaultStep(act=Act.START, on=("west-1",), when=When.DOWN, after_seconds=30),
        ),
        moves=True, verdicts=_DOWN,
    ),
    Scenario(
        name="drill-under-load", title="Every query is drilled while it reads on",
        steps=(FaultStep(act=Act.DRILL),), moves=False, never=_DOWN,
    ),
    Scenario(
        name="switchover-under-load", title="Every query is moved by a switchover; producers write on to the primary",
        steps=(FaultStep(act=Act.SWITCHOVER),), moves=True, never=_DOWN,
    ),
    Scenario(
        name="primary-dies-in-switchover",
        title="All brokers of the primary are killed in the middle of a switchover: a failover moves what goes back",
        steps=(
            FaultStep(act=Act.SWITCHOVER, detail=NO_WAIT),
            FaultStep(act=Act.KILL, on=EAST, when=When.MOVING),
        ),
        moves=True, verdicts=_DOWN, before_commit=True,
    ),
    Scenario(
        # The replicator dies a moment before the primary, so that there is a tail, and stays dead: it would copy that.
        name="failback-after-kill",
        title="The primary is killed and comes back, replication is reversed, and every query moves back to it",
        steps=(
            FaultStep(act=Act.KILL, on=("replicator",)),
            FaultStep(act=Act.KILL, on=EAST, after_seconds=1),
            FaultStep(act=Act.PRODUCE, on=("traffic-west",), when=When.MOVED),
            FaultStep(act=Act.START, on=EAST),
            FaultStep(act=Act.TURN, on=("replicator-home",), when=When.BACK),
            FaultStep(act=Act.FAILBACK),
        ),
        moves=True, verdicts=_DOWN,
    ),
    Scenario(
        name="secured-kill-cluster",
        title="All brokers of the primary are killed; both clusters require credentials and allow what is documented",
        steps=(_KILL_EAST,), moves=True, verdicts=_DOWN, files=(SECURED,),
    ),
    Scenario(
        name="secured-runner-and-cluster",
        title="The runner dies with its cluster, and a person consents; both clusters require credentials",
        steps=_RUNNER_AND_CLUSTER,
        moves=True, verdicts=_DOWN, runner="b", files=(SECURED,),
    ),
)  # fmt: skip


def expected_of(scenario: Scenario) -> list[str]:
    """What is expected of a scenario, in words."""
    sentences = [_moves_of(scenario)]
    sentences += ["every query is drilled once, and keeps its epoch and its sink"] if scenario.drills else []
    sentences += [f"runner {scenario.runner} hosts the queries in the end"]
    sentences += [f"the primary is {verdict}" for verdict in sorted(scenario.verdicts)]
    sentences += [f"neither cluster is ever {verdict}" for verdict in sorted(scenario.never)]
    sentences += [f"one of the clusters is {' or '.join(sorted(scenario.either))}"] if scenario.either else []
    sentences += ["it is refused without a consent, and something is left behind"] if scenario.consented else []
    sentences += ["the primary is UP again and repeats are as announced"] if scenario.returns else []
    return sentences


def _moves_of(scenario: Scenario) -> str:
    if not scenario.moves:
        return "nothing moves"
    kinds = ", then by a ".join(" or a ".join(sorted(each)) for each in scenario.moved_by)
    end = "; all but the tail is on the primary, and the report of the tail is right" if scenario.comes_home else ""
    stay = ", or stays if the primary answers before its old run is proven stopped" if scenario.may_stay else ""
    return f"every query moves {TIMES[len(scenario.moved_by)]}, by a {kinds}{stay}{end}"


def named(name: str) -> Scenario | None:
    """The scenario of a name, or nothing."""
    return next((each for each in SCENARIOS if each.name == name), None)
