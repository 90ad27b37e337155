"""Former checkpoints: gathered, judged, and given to a runner to be cleaned."""

from collections.abc import Iterable, Sequence

from orchestrator.decide.former_checkpoints import (
    Disposition,
    JudgedFormer,
    KeepRules,
    Whereabouts,
    cleaning_event,
    judge_formers,
)
from orchestrator.decide.gates.preconditions import choose_runner
from orchestrator.decide.reconcile import held_by
from orchestrator.facts.current import alive_runners, latest_fact, open_operation
from state.model.maintenance import FormerCheckpoint
from state.settings.keys import Retention, Tideover
from state.store.controller_store import ControllerStore


def keep_of(retention: Retention) -> KeepRules:
    """What the configuration keeps."""
    return KeepRules(age=retention.checkpoints, newest=retention.keep_checkpoints)


def judged_of(
    store: ControllerStore, settings: Tideover, query: str, keep: KeepRules, *, by_hand: bool = False
) -> Sequence[JudgedFormer]:
    """What becomes of each checkpoint that a query has left, newest first. Raises ``StoreError``."""
    formers = store.formers(query)
    return judge_formers(whereabouts(store, settings, query), formers, keep, store.now(), requested_by_hand=by_hand)


def whereabouts(store: ControllerStore, settings: Tideover, query: str) -> Whereabouts:
    """Where a query is, as its runner and the store say. Raises ``StoreError``."""
    declared = settings.queries.get(query)
    fact = latest_fact(store, query)
    assignment = store.assignment(query)  # after the fact: else a move in between would look like an older store
    opened = open_operation(store, query)
    holder, alive = held_by(assignment, fact), alive_runners(store)
    eligible = [each for each in alive if declared is not None and each.runner in declared.runners]
    chosen = choose_runner(eligible, declared, assignment) if declared is not None and assignment is not None else None
    return Whereabouts(
        query=query,
        base=declared.checkpoint if declared is not None else None,
        assignment=assignment,
        fact=fact,
        operation=opened.id if opened is not None else None,
        stranger=holder if holder is not None and store.operation(holder) is None else None,
        runner=chosen.runner if chosen is not None else None,
        alive=frozenset(each.runner for each in alive),
    )


def request_cleaning(
    store: ControllerStore,
    settings: Tideover,
    query: str,
    keep: KeepRules,
    *,
    actor: str,
    reason: str = "",
    term: int | None = None,
    only: Iterable[str] | None = None,
) -> list[FormerCheckpoint]:
    """Order a runner to clean each that goes; returns those for which it got the order. A person's order has no term.

    ``only``: checkpoints that a person saw and agreed to. Raises ``StaleTerm`` and other ``StoreError``.
    """
    found, at = whereabouts(store, settings, query), store.now()
    if found.assignment is None or found.runner is None:
        return []
    agreed = None if only is None else set(only)
    given = []
    for judged in judge_formers(found, store.formers(query), keep, at, requested_by_hand=term is None):
        if judged.fate is Disposition.GOES and (agreed is None or judged.former.checkpoint in agreed):
            epoch, runner = found.assignment.epoch, found.runner
            event = cleaning_event(judged, runner, epoch=epoch, at=at, actor=actor, reason=reason)
            if store.request_cleaning(judged.former, runner=runner, epoch=epoch, event=event, term=term):
                given.append(judged.former)
    return given
