"""Whose turn it is to begin, in sentences. Pure.

An operation begins by stopping its query, so no more begin than are made side by side (``operations.at_once``): the
others wait, and their requests say so.

A planned move of a query also waits for those that are upstream of it and were requested together with it, or are being
moved. It follows once they are committed, and stays where it is if one of them did not go. A failover waits for no
other query: where the cluster is dead nothing comes from upstream any more, and each query is better off away from it.

A request for many moves may order them in waves. A wave begins when all moves of the waves before it are done; if
one of them was refused, failed or went back, the later waves stay where they are. A move that awaits the next start of
its application holds no wave: that start may be a day away. A request carries the number of its wave, so that each
leader comes to the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.decide.operation.snapshot import awaits_start
from orchestrator.decide.phases import BEFORE_COMMIT, BEHIND_COMMIT
from orchestrator.decide.times import iso
from state.model.entities import Operation, Request
from state.plain_text import amount

WAVE = "wave"
"""Among the parameters of a request: the number of its wave; 1 where it has none."""
THERE = "not-already-there"
"""How the refusal of a query begins that is where it was to go."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """Why a planned move does not begin yet, or never will."""

    text: str
    never: bool = False


def waves_of(names: Iterable[str], sizes: Sequence[int]) -> dict[str, int]:
    """By query, the number of its wave; sizes are those of the first waves, and one more takes the rest."""
    found: dict[str, int] = {}
    rest, wave, left = list(names), 1, list(sizes)
    while rest:
        size = left.pop(0) if left else len(rest)
        found |= dict.fromkeys(rest[:size], wave)
        rest, wave = rest[size:], wave + 1
    return found


def wave_of(parameters: Mapping[str, object]) -> int:
    """The number of a wave, in the parameters of a request."""
    wave = parameters.get(WAVE)
    return wave if isinstance(wave, int) else 1


def without_wave(parameters: Mapping[str, object]) -> dict[str, object]:
    """What is requested, whenever it begins."""
    return {name: value for name, value in parameters.items() if name != WAVE}


def turn_in_wave(request: Request, others: Iterable[tuple[Request, Operation | None]]) -> Turn | None:
    """Whether a move has to wait for the waves before its own; None: it may begin.

    ``others`` are those that were requested together with it, each with its operation if it has one.
    """
    own = wave_of(request.parameters)
    open_ones: list[Request] = []
    for other, operation in others:
        if wave_of(other.parameters) >= own:
            continue
        why = _not_moved(other, operation)
        if why is not None:
            text = f"wave-failed: {request.query} is not moved, because {other.query} of an earlier wave was not: {why}"
            return Turn(text=text, never=True)
        if other.refused is None and (operation is None or (operation.is_open and not awaits_start(operation))):
            open_ones.append(other)
    if not open_ones:
        return None
    first = min(wave_of(each.parameters) for each in open_ones)
    names = [each.query for each in open_ones if wave_of(each.parameters) == first]
    count = f"{len(names)} of its moves are open" if len(names) > 1 else f"{names[0]} is not done"
    return Turn(text=f"{request.query} keeps running in wave {own} and waits for wave {first}: {count}")


def _not_moved(request: Request, operation: Operation | None) -> str | None:
    """Why a query did not get where it was to go; None while it may, and where it is there."""
    if request.refused is not None:
        return None if request.refused.startswith(THERE) else request.refused
    if operation is None or operation.outcome in {None, "done"}:
        return None
    return f"operation {operation.id} ({operation.outcome}): {operation.sentence}"


def waits(request: Request, under_way: Sequence[Operation], at_once: int) -> str | None:
    """Why a request that is not answered yet has to wait, as far as open operations show; None where they do not."""
    if len(under_way) < at_once or any(operation.query == request.query for operation in under_way):
        return None
    return (
        f"{request.query} keeps running and waits for its turn: {amount(len(under_way), 'move')} in progress, at "
        f"most {at_once} at "
        "once (operations.at_once)"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Upstream:
    """What is known of a query that is upstream of one that shall be moved."""

    query: str
    cluster: str | None
    """Where it is placed; None where it never ran."""
    request: Request | None
    """By which it is to be moved together with the other; None where no one request was for both."""
    operation: Operation | None
    """What answers that request, else its open operation."""


def turn_behind(request: Request, upstream: Iterable[Upstream]) -> Turn | None:
    """Whether a planned move has to wait for those upstream of its query; None: it may begin.

    One that did not go counts before all that are waited for.
    """
    turns = [turn for each in upstream if (turn := _behind(request, each)) is not None]
    return next((turn for turn in turns if turn.never), turns[0] if turns else None)


def _behind(request: Request, upstream: Upstream) -> Turn | None:
    before, operation, name = upstream.request, upstream.operation, upstream.query
    waits = f"{request.query} keeps running and waits for {name}, which is upstream of it"
    if before is not None and operation is None:
        if before.refused is None:
            return Turn(text=f"{waits}: request {before.id} has not begun")
        return None if upstream.cluster == before.target else _left_behind(request, name, before.refused)
    if operation is None:
        return None
    if operation.phase in BEFORE_COMMIT:
        return Turn(text=f"{waits}: operation {operation.id} is {operation.phase}")
    if before is None or (operation.phase in BEHIND_COMMIT and operation.outcome in {None, "done"}):
        return None
    ended = operation.outcome or "going back"
    return _left_behind(request, name, f"operation {operation.id} ({ended}): {operation.sentence}")


def _left_behind(request: Request, upstream: str, why: str) -> Turn:
    text = f"upstream-moved: {request.query} is not moved, because {upstream}, which is upstream of it, was not: {why}"
    return Turn(text=text, never=True)


def too_late(request: Request, *, waited: bool, turn: Turn | None = None) -> str:
    """What is said of a request whose time is up; ``turn`` is what it waited for."""
    if turn is not None:
        return f"it expired at {iso(request.expires_at)}; {turn.text}; run the command again with a longer --timeout"
    if waited:
        return (
            f"it expired at {iso(request.expires_at)} before its turn came: more moves were requested than run at once "
            "(operations.at_once); run the command again with a longer --timeout"
        )
    return f"no controller took it before it expired at {iso(request.expires_at)}; run the command again"
