"""The lines ``next:`` after a failover: what the operator does now."""

from collections.abc import Iterable, Sequence

from orchestrator.cli.render import talk
from orchestrator.decide.operation.snapshot import awaits_start
from orchestrator.decide.operation.turns import THERE
from orchestrator.operation.wait import Answered
from state.model.entities import Operation
from state.plain_text import amount, few


def say_next(answered: Sequence[Answered]) -> None:
    """Print the lines after what became of these requests."""
    for line in next_steps(answered):
        talk(line)


def next_steps(answered: Sequence[Answered]) -> list[str]:
    """A line each: the producers, the replicator, what is open, what failed and what was refused."""
    operations = [each for _, each in answered if each is not None]
    moved = [each for each in operations if each.outcome == "done" or awaits_start(each)]
    open_yet = [
        request.query
        for request, each in answered
        if (each is None and request.refused is None) or (each is not None and each.is_open and each not in moved)
    ]
    failed = [each for each in operations if each.outcome == "failed"]
    refused = [
        request
        for request, each in answered
        if (each is not None and each.outcome == "refused")
        or (request.refused is not None and not request.refused.startswith(THERE))
    ]
    steps = [f"let the producers write to {few(_once(each.target for each in moved))}"] if moved else []
    steps += _of_the_replicator(moved)
    if open_yet:
        steps.append(f"run the same command again to see how it ends: {few(open_yet)}")
    if failed:
        steps.append(f"tideover show-op {failed[0].id} shows what failed: {few([each.query for each in failed])}")
    if refused:
        first, names = refused[0], few([each.query for each in refused])
        to = f" --to {first.target}" if first.target else ""
        steps.append(f"tideover plan {first.kind} {first.query}{to} shows what refuses: {names}")
    return [f"next: {each}" for each in steps]


def _of_the_replicator(moved: Iterable[Operation]) -> list[str]:
    """What its return would append of what the queries have read; nothing where that is known to be nothing."""
    later = [(each.source, each.plan.totals.replay_later_records) for each in moved if each.plan is not None]
    lacking = [(source, count) for source, count in later if count != 0]
    if not lacking:
        return []
    known = [count for _, count in lacking if count is not None]
    many = "an unknown number of records"
    if len(known) == len(lacking):
        many = f"up to {amount(max(known), 'record')} of a query"
    sources = few(_once(source for source, _ in lacking))
    return [f"keep the replicator from {sources} stopped: it would append {many} that were read already"]


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
