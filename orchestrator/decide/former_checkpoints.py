"""Which of the checkpoints that a query has left are cleaned, and why each of the others stays; pure.

A move copies what it needs, so nothing reads a former checkpoint once the move is committed. What may still want one is
a person who looks for what went wrong, and a store that is restored to an older copy. So the newest stay, nothing goes
while it is not plain where the query runs, and what a runner cleans keeps its last batch and its fence.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from orchestrator.decide.reconcile import is_put_back
from state.checkpoint_folders import belongs_to
from state.model.entities import Assignment, Desired, Event, QueryFact, RunState
from state.model.maintenance import FormerCheckpoint
from state.plain_text import amount
from state.settings.canonical import are_one_folder
from state.settings.values import write_duration

AGAIN = timedelta(days=1)
"""How long after a runner did not clean a checkpoint it gets the order again; a person may order it at once."""


class Disposition(StrEnum):
    """What becomes of a former checkpoint now."""

    GOES = "goes"
    ORDERED = "ordered"
    """A runner is at it, or will be."""
    CLEANED = "cleaned"
    STAYS = "stays"


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepRules:
    """What is kept, as the configuration or a person says."""

    age: timedelta | None
    """How long after it was left; None: for ever."""
    newest: int
    """How many of each query stay however old they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Whereabouts:
    """Where one query is, and who could clean what it left."""

    query: str
    base: str | None
    """Its checkpoint folder as configured; None where it is not declared."""
    assignment: Assignment | None
    fact: QueryFact | None
    """Read before the assignment."""
    operation: str | None
    """The open one."""
    stranger: str | None
    """An operation that holds the checkpoint in use and that the store does not know."""
    runner: str | None
    """The living one that would get the order."""
    alive: Collection[str]
    """Runners that are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedFormer:
    """One former checkpoint, and what becomes of it."""

    former: FormerCheckpoint
    fate: Disposition
    why: str


def judge_formers(
    found: Whereabouts,
    formers: Iterable[FormerCheckpoint],
    keep: KeepRules,
    now: datetime,
    *,
    requested_by_hand: bool = False,
) -> list[JudgedFormer]:
    """Newest first. ``requested_by_hand``: what a runner could not clean a while ago is tried again."""
    newest_first = sorted(formers, key=lambda each: (each.left_epoch, each.checkpoint), reverse=True)
    kept = [each.checkpoint for each in newest_first if each.cleaned_at is None][: keep.newest]
    uncertain = _uncertain(found)
    judged = []
    for former in newest_first:
        fate, why = _done(former, found.alive)
        if fate is Disposition.STAYS and not why:
            why = uncertain or _needed(found, former, former.checkpoint in kept, keep)
            why = why or _young(former, keep, now) or _in_vain(found, former, None if requested_by_hand else now)
            fate = Disposition.STAYS if why else Disposition.GOES
        judged.append(JudgedFormer(former=former, fate=fate, why=why or _old(former, keep, now)))
    return judged


def _done(former: FormerCheckpoint, alive: Collection[str]) -> tuple[Disposition, str]:
    if former.cleaned_at is not None:
        files = "its files are" if former.files is None else amount(former.files, "file")
        return Disposition.CLEANED, f"{files} deleted; its last batch and its fence are kept"
    if former.is_requested and former.runner in alive:
        return Disposition.ORDERED, f"waiting for runner {former.runner} to clean it"
    return Disposition.STAYS, ""


def _uncertain(found: Whereabouts) -> str:
    """Why nothing of the query is touched now; empty where it is plain from which checkpoint it runs."""
    query, assignment, fact = found.query, found.assignment, found.fact
    if found.base is None:
        return f"{query} is not declared"
    if assignment is None:
        return f"the store does not say where {query} runs"
    if found.stranger is not None or is_put_back(assignment, fact):
        return f"the store was restored from an older backup: tideover reconcile {query}"
    if found.operation is not None:
        return f"operation {found.operation} of {query} is open"
    if assignment.desired is not Desired.RUNNING:
        return f"{query} is held"
    if fact is None or (fact.epoch, fact.state) != (assignment.epoch, RunState.RUNNING) or fact.batch is None:
        return f"no runner reports that {query} runs under epoch {assignment.epoch}"
    return ""


def _needed(found: Whereabouts, former: FormerCheckpoint, is_new: bool, keep: KeepRules) -> str:
    in_use = [each.checkpoint for each in (found.assignment, found.fact) if each is not None]
    if any(are_one_folder(former.checkpoint, each) for each in in_use):
        return f"{former.query} uses it"
    if not belongs_to(former.checkpoint, found.base or ""):
        return f"it is outside {found.base}, the checkpoint folder in the configuration"
    if is_new:
        return f"it is one of the newest {keep.newest} (retention.keep_checkpoints)"
    return ""


def _young(former: FormerCheckpoint, keep: KeepRules, now: datetime) -> str:
    if keep.age is None:
        return "retention.checkpoints is not set"
    age = now - former.left_at
    if age < timedelta(0):
        return "its time is in the future: a clock was set back"
    return f"left {_rounded(age)} ago, kept for {write_duration(keep.age)}" if age < keep.age else ""


def _in_vain(found: Whereabouts, former: FormerCheckpoint, now: datetime | None) -> str:
    tried_at = former.asked_at if former.refused is not None else None
    if tried_at is not None and now is not None and abs(now - tried_at) < AGAIN:
        return f"runner {former.runner} could not clean it: {former.refused}"
    return "" if found.runner is not None else f"no runner of {former.query} is alive"


def _old(former: FormerCheckpoint, keep: KeepRules, now: datetime) -> str:
    more = "" if keep.age is None else f", more than {write_duration(keep.age)}"
    return f"left {_rounded(now - former.left_at)} ago{more}"


def _rounded(age: timedelta) -> str:
    """The largest unit of which there is at least one."""
    for unit in (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)):
        if age >= unit:
            return write_duration(age // unit * unit)
    return write_duration(timedelta(seconds=age // timedelta(seconds=1)))


def cleaning_event(
    judged: JudgedFormer, runner: str, *, epoch: int, at: datetime, actor: str, reason: str = ""
) -> Event:
    """The line of history for an order."""
    former = judged.former
    return Event(
        sequence=None,
        at=at,
        kind="clean",
        query=former.query,
        operation=None,
        epoch=epoch,
        actor=actor,
        text=f"ordered runner {runner} to clean {former.checkpoint}: {judged.why}" + (f": {reason}" if reason else ""),
        detail={"checkpoint": former.checkpoint, "left_epoch": former.left_epoch, "reason": reason},
    )
