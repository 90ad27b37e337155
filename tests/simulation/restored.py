"""Every case of a restored store, generated and played: what the operator sees, types and gets.

A case is a history of moves, the moment of the backup in it, the moment at which the backup is put back, and what
became of the runner. The operator knows the runbook only, types what an answer names, and looks into no file.
Printed as docs/restored.md by ``python -m tests.simulation.restored write``.
"""

import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.decide.reconcile import put_back_text
from orchestrator.decide.times import instant
from orchestrator.operation.reconcile import lost_of, reconcile, reconcile_as_found, sides_of
from state.messages import Proof
from state.model.entities import Assignment, Desired, Operation, OperationKind, Phase
from streaming.spark.checkpoint.mapping import Placed
from tests.memory_store import MemoryStore
from tests.simulation.control import scheduler, see_to
from tests.simulation.test_rewind import BACK_MS
from tests.simulation.world import QUERY, Crash, FakeRunner, World, settings

PAGE = Path(__file__).parents[2] / "docs" / "restored.md"
RESUMES = ("switch", "carry")
HISTORIES = {
    "failover": (OperationKind.FAILOVER,),
    "switchover": (OperationKind.SWITCHOVER,),
    "rewind": (OperationKind.REWIND,),
    "failover there and back": (OperationKind.FAILOVER, OperationKind.FAILOVER),
    "failover that is cancelled": (OperationKind.FAILOVER,),
    "failover that is blocked": (OperationKind.FAILOVER,),
    "failover with a takeover": (OperationKind.FAILOVER,),
    "drill, failover": (OperationKind.DRILL, OperationKind.FAILOVER),
    "failover, then failback": (OperationKind.FAILOVER, OperationKind.FAILBACK),
    "switchover, then failback": (OperationKind.SWITCHOVER, OperationKind.FAILBACK),
}
PHASES = ("FENCING", "RESOLVING", "PREPARING", "STARTING", "VERIFYING")
"""Of a move that nothing holds up, in their order."""
MOMENTS = {
    "failover that is cancelled": ("FENCING", "BLOCKED"),
    "failover that is blocked": ("BLOCKED",),
    "failover with a takeover": ("STARTING", "takeover", "VERIFYING"),
    "drill, failover": (),
}
"""Of the other histories, the moments of their first move. A takeover: another runner fences what was committed."""
LATE = ("failover, then failback", "switchover, then failback")
"""Histories whose backup is made before or in their last move, the planned way home."""
CUT_SHORT = ("failover", "failover that is blocked", "failover with a takeover", "failover, then failback")
"""Histories in which the backup is put back in the middle of the move, too."""
RUNNERS = ("alive", "restarted", "gone")
TARGETS = ("west", "east")
_ROUNDS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One of them."""

    resume: str
    history: str
    backup: str
    restored: str
    """At the end of the history, or while its last move is in a later phase."""
    runner: str

    @property
    def name(self) -> str:
        return f"{self.resume}, {self.history}, backup {self.backup}, restored {self.restored}, runner {self.runner}"


@dataclass
class Outcome:
    """What the operator saw and typed, and what became of the query."""

    sees: list[str] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    result: str = ""


def cases() -> Iterator[Case]:
    """All that can happen: nothing is restored to a time before its backup, and a drill holds nothing."""
    for resume, history in itertools.product(RESUMES, HISTORIES):
        for backup in _backups(history):
            for restored in _moments(history, backup):
                for runner in RUNNERS:
                    yield Case(resume=resume, history=history, backup=backup, restored=restored, runner=runner)


def _backups(history: str) -> tuple[str, ...]:
    """Before the first move, or in a phase of it; of a drill while it is open."""
    return ("before", *MOMENTS.get(history, PHASES))


def _moments(history: str, backup: str) -> tuple[str, ...]:
    """At the end, and of some histories at each later moment as well."""
    backups = _backups(history)
    return ("afterwards", *(backups[backups.index(backup) + 1 :] if history in CUT_SHORT else ()))


class Stage:
    """A world in which a case is played."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.world = World(settings(resume=case.resume))
        self.world.runner.companion = self.world.other.companion = case.resume == "switch"
        self.world.clock.wait(1.5)
        self._put_back: Callable[[], None] | None = None
        self._until = ""
        self._waits = case.history in LATE
        """The move in which the backup is made has not begun."""
        if case.history.endswith("takeover"):
            self._lose_the_runner()
        for verb in ("record", "hold", "place"):
            setattr(self.store, verb, self._watched(getattr(self.store, verb)))

    @property
    def store(self) -> MemoryStore:
        assert isinstance(self.world.store, MemoryStore)
        return self.world.store

    def phase(self) -> Phase | None:
        opened = [each for each in self.store.operations(only_open=True) if each.kind is not OperationKind.DRILL]
        return opened[0].phase if opened else None

    def moment(self) -> str | None:
        """The phase of the open move; behind its commit a row that is held is a takeover's."""
        phase = self.phase()
        if phase in {Phase.STARTING, Phase.VERIFYING} and self.row().desired is Desired.HELD:
            return "takeover"
        return None if phase is None else phase.value

    def _watched(self, verb: Callable[..., object]) -> Callable[..., object]:
        """A write of a controller behind which a backup may be made, or the controller ends at once."""

        def written(*given: object, **more: object) -> object:
            result, moment = verb(*given, **more), self.moment()
            if self._put_back is None and moment == self.case.backup and not self._waits:
                self._put_back = self.store.back_up()
            elif self._put_back is not None and moment is not None and moment == self._until:
                self._until = ""
                raise Crash
            return result

        return written

    def _lose_the_runner(self) -> None:
        """Runner a ends when it is to start the query at its new place; b can prove that."""
        world, obey = self.world, self.world.runner._obey
        world.other.alive, world.other.proof = True, Proof.PROCESS

        def end(row: Assignment) -> None:
            world.runner.alive = row.epoch == 1
            if world.runner.alive:
                obey(row)

        world.runner._obey = end  # type: ignore[method-assign, assignment] # the fault

    @property
    def here(self) -> FakeRunner:
        """The runner that has the query in the end."""
        return self.world.other if self.case.history.endswith("takeover") else self.world.runner

    def act(self) -> None:
        """Carry out the history, as far as it goes before the backup is put back."""
        kinds = HISTORIES[self.case.history]
        if self.case.backup == "before" and kinds[0] is not OperationKind.DRILL and not self._waits:
            self._put_back = self.store.back_up()
        moves = 0
        for kind in kinds:
            if kind is OperationKind.DRILL:
                self._drill()
                continue
            last = moves == len([each for each in kinds if each is not OperationKind.DRILL]) - 1
            if last and self._waits:
                self._waits = False
                self._put_back = self.store.back_up() if self.case.backup == "before" else None
            self._move(kind, TARGETS[moves % 2], self.case.restored if last else "afterwards")
            moves += 1
        if self._put_back is None:
            raise NotReached(self.case)

    def _drill(self) -> None:
        held = scheduler(self.world)
        self.world.request(kind=OperationKind.DRILL)
        see_to(self.world, held, 1)
        self._put_back = self.store.back_up()
        see_to(self.world, held, 10)
        held.lead.give_up()

    def _move(self, kind: OperationKind, target: str, until: str) -> None:
        world = self.world
        if target == "east":
            world.track(QUERY, 9, 33 + 100, cluster="west", epoch=self.row().epoch)
        held = scheduler(world)
        waits = self.case.history.endswith(("cancelled", "blocked"))
        if waits:
            world.runner.proof = None
        self._until = until
        back = {"to_time": instant(BACK_MS)} if kind is OperationKind.REWIND else {}
        target = "east" if back else target
        request = world.request(kind=kind, target=target, consents=("replication",), parameters=back)
        end = world.clock.passed + 60
        with contextlib.suppress(Crash):
            while world.clock.passed < end:
                see_to(world, held, 0.01)
                phase, answered = self.phase(), self.store.request(request.id)
                if answered is not None and answered.operation is not None and phase is None:
                    break
                if waits and phase is Phase.BLOCKED and self._put_back is not None:
                    waits, world.runner.proof = False, Proof.RUNNER
                    if self.case.history.endswith("cancelled"):
                        self._cancel(self.store.operations(only_open=True)[0])
            held.lead.give_up()
        answered = self.store.request(request.id)
        if answered is None or answered.refused is not None:
            raise ValueError(f"{self.case.name}: the {kind} was refused: {answered and answered.refused}")
        if self._until not in {"", "afterwards"}:
            raise NotReached(self.case)

    def _cancel(self, opened: Operation) -> None:
        self.world.request(kind=opened.kind, target=opened.source)

    def row(self) -> Assignment:
        row = self.store.assignment(QUERY)
        assert row is not None
        return row

    def put_back(self) -> None:
        """The backup takes the place of the store, and the runner lives on, is restarted or is gone."""
        assert self._put_back is not None
        self._truth = self.world.starts[-1] if self.world.starts else None
        runner, self._until = self.here, ""
        runner.proof = Proof.RUNNER if runner is self.world.runner else Proof.PROCESS
        if self.case.runner != "alive":
            runner.instance = "two"
            runner.ran.clear()
            runner.runs.clear()
            runner.stuck.clear()
        runner.alive = self.case.runner != "gone"
        self._put_back()
        self._ran = len(self.world.starts)
        self.world.clock.wait(1)

    def operate(self, outcome: Outcome) -> None:
        """What the runbook says, and what each answer names; nothing else."""
        for _ in range(_ROUNDS):
            self.world.clock.wait(6)
            sides, lost = sides_of(self.store, QUERY), lost_of(self.store, QUERY)
            if sides is not None:
                self._see(outcome, put_back_text(sides.stored, sides.runs), "tideover reconcile revenue")
                reconcile(self.store, self.world.settings, sides, actor="ann", reason="")
            elif lost is not None and lost.place is not None:
                self._see(outcome, lost.text, "tideover reconcile revenue")
                reconcile_as_found(self.store, self.world.settings, lost, runner=None, actor="ann", reason="")
            elif not self.of_row().alive:
                runner = self.of_row()
                self._see(outcome, f"runner {runner.name} is gone", f"tideover run --name {runner.name}")
                self._start(runner)
                continue
            elif self.phase() is None and self.is_well():
                return
            self._drive()

    def of_row(self) -> FakeRunner:
        """The runner that the row names."""
        return self.world.runner if self.row().runner == "a" else self.world.other

    def _start(self, runner: FakeRunner) -> None:
        """A new process of that name, which has no fault."""
        if runner is self.world.runner and self.case.history.endswith("takeover"):
            vars(runner).pop("_obey", None)
            runner.ran.clear()
            runner.runs.clear()
            runner.instance = "three"
        runner.alive = True

    def _see(self, outcome: Outcome, text: str, command: str) -> None:
        outcome.sees.append(text)
        outcome.typed.append(command)

    def _drive(self) -> None:
        """A controller leads again, and continues with what is open."""
        lead = self.world.lead()
        while not lead.take():
            self.world.clock.wait(1.0)
        held, end = scheduler(self.world, lead), self.world.clock.passed + 40
        while self.world.clock.passed < end and self.phase() is not None:
            held.resume()
            see_to(self.world, held, 1)
            if sides_of(self.store, QUERY) is not None or lost_of(self.store, QUERY) is not None:
                break
        held.lead.give_up()

    def is_well(self) -> bool:
        """Whether the query runs as its row says, and its store is not the older one."""
        row, runner = self.row(), self.of_row()
        known = sides_of(self.store, QUERY) is None and lost_of(self.store, QUERY) is None
        runs = runner.alive and runner.runs.get(QUERY) == row and runner.ran.get(QUERY) == row.epoch
        return known and row.desired is Desired.RUNNING and runs

    def wrong(self) -> list[str]:
        """Starts that read another place than where the query was, and a healthy run that was ended unasked."""
        found, newest = [], 0
        for start in self.world.starts:
            made = self.world.checkpoints[start.checkpoint]
            epoch = Placed.of(start).epoch if self.case.resume == "switch" else _made_by(start)
            if epoch < newest:
                found.append(f"epoch {start.epoch} began at a place of epoch {epoch}, left for one of {newest}")
            move = next((each for each in made.moves if each.epoch == Placed.of(start).epoch), None)
            if move is not None and move.to != start.cluster:
                found.append(f"epoch {start.epoch} read {start.cluster} by a mapping to {move.to}")
            newest = max(newest, epoch)
        return found


def _made_by(start: Assignment) -> int:
    name = start.checkpoint.rpartition("/")[2]
    return int(name.split("-")[1]) if name.startswith("epoch-") else 0


class NotReached(Exception):
    """The history never is in the phase of the case."""


def play(case: Case) -> Outcome:
    """Play a case to its end. Raises ``NotReached``."""
    stage, outcome = Stage(case), Outcome()
    stage.act()
    stage.put_back()
    before = len(stage.world.starts)
    stage.world.clock.wait(2)
    if case.runner == "alive" and len(stage.world.starts) != before:
        outcome.result = "WRONG: a run was ended before anybody typed anything"
        return outcome
    stage.operate(outcome)
    row, wrong = stage.row(), stage.wrong()
    if wrong or not stage.is_well():
        outcome.result = "WRONG: " + ("; ".join(wrong) or f"{row.desired} {stage.phase()}")
    else:
        outcome.result = f"runs on {row.cluster}"
    return outcome


HEAD = """# Restored stores: every case

A store was restored from a backup, and its queries had continued after that backup. Each row is a case that was played
in the simulation. Cases differ by the history of the query and by the moment of the backup: before the first move, or
in a phase of it. Where a planned failback ends the history, the backup is of before the failback or of a phase of it.
They differ by the moment of the restore: after the history, or in a later phase, at which the controller ends as
well. And the runner is alive, was restarted since, or is gone and started by the operator. In a
takeover runner a was lost behind the commit, and b followed. The operator types what the answers name, as
[the runbook](runbook.md#the-store-was-restored-from-an-older-backup) says. In each case the query runs in the end
where its records are, no run was ended before a command was typed, and no start read another place. `ID` stands for an
operation. This page is generated.

| resume | history | backup | restored | runner | what the operator sees | command | result |
|---|---|---|---|---|---|---|---|
"""
_ID = re.compile(r"\d{6}-\d{6}-[0-9a-f]{8}")


def line(case: Case, done: Outcome) -> str:
    """One row of the page."""
    sees = "; then ".join(_ID.sub("ID", text).replace("|", "/") for text in done.sees)
    typed = ", ".join(f"`{each}`" for each in done.typed)
    cells = (
        *(case.resume, case.history, case.backup, case.restored, case.runner),
        *(sees or "the store is current", typed or "none", done.result),
    )
    return f"| {' | '.join(cells)} |\n"


def rows() -> Iterator[str]:
    """All of them that a history can be in."""
    for case in cases():
        with contextlib.suppress(NotReached):
            yield line(case, play(case))


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        PAGE.write_text(HEAD + "".join(rows()), encoding="utf-8")
    else:
        for row in rows():
            print(row, end="")
