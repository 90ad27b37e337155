"""Progress of operations, and what came of them."""

import time
from collections.abc import Callable, Mapping, Sequence

from orchestrator.cli import render
from orchestrator.cli.live_line import LiveLine
from orchestrator.cli.render import talk
from orchestrator.decide.operation.snapshot import awaits_start
from orchestrator.decide.operation.turns import THERE, waits
from orchestrator.decide.times import iso
from orchestrator.errors import ExitCode, OutcomeUnknown, Refused
from orchestrator.facts.current import Turns, open_drills, open_operations
from orchestrator.history_tail import BATCH
from orchestrator.new_requests import standing_of
from orchestrator.operation.wait import Answered, outcome_of
from orchestrator.rounds import newest_line
from orchestrator.shapes import operation_shapes, request_shapes
from state.errors import StoreUnavailable
from state.model.entities import MOVES, Event, Operation, Request
from state.plain_text import few
from state.store.controller_store import ControllerStore

MANY = 5
"""Of more operations than these not each step is said, but how many have ended: ``Counts``."""
QUIET_SECONDS = 15.0
"""After so long without a line the operations are named that are still open."""
_NAMED = 3
"""At most so many of them."""


class Progress:
    """Says each recorded line of the operations of these requests once, in the order in which they were recorded.

    A terminal has a line below them that changes each second: how many have ended, who is waited for and why.
    """

    def __init__(
        self,
        store: ControllerStore,
        requests: Sequence[Request],
        *,
        at_once: int,
        upstream: Mapping[str, Sequence[str]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``now``: seconds on any clock that goes forward."""
        self._store = store
        self._now = now
        self._began = self._said_at = now()
        self._live = LiveLine(now)
        self._upstream = upstream
        self._requests = requests
        self._at_once = at_once
        self._waiting: set[str] = set()
        """Requests of which it is said that they wait."""
        self._said: dict[str, int] = {}
        """By operation, the last line of its history that was read."""
        self._read: int | None = None
        """Of the whole history; what was there before the first look is read with its operation."""
        self._away = False

    def say(self) -> None:
        """Say what is new."""
        try:
            self._say()
            self._say_what_is_open()
            self._say_this_second()
            self._away = False
        except StoreUnavailable as error:
            if not self._away:
                self._talk(f"the store does not answer; waiting for it, queries run on: {error}")
            self._away = True

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self._live.clear()

    def _talk(self, text: str) -> None:
        self._said_at = self._now()
        self._live.clear()
        talk(text)

    def _say_this_second(self) -> None:
        """Of several that are open each has its second in turn."""
        if not self._live.is_due:
            return
        open_ones, standing = _open_ones(self._store), standing_of(self._store, self._requests)
        named = [found for each in standing if (found := open_ones.get(each.operation or "")) is not None]
        waiting = [each for each in standing if each.operation is None and each.refused is None]
        seconds, total = int(self._now() - self._began), len(standing)
        ended = f"{total - len(named) - len(waiting)} of {total} have ended, " if total > 1 else ""
        if named:
            one = named[seconds % len(named)]
            self._live.show(f"{seconds} s: {ended}{one.query} is {one.phase.value}: {one.sentence}")
        elif waiting:
            one_waiting = waiting[seconds % len(waiting)]
            self._live.show(f"{seconds} s: {ended}{one_waiting.query} waits for its turn")
        else:
            self._live.show("")

    def _say_what_is_open(self) -> None:
        """One operation that waits for its sink or its cluster keeps the whole command, and no step of it ends."""
        if self._now() - self._said_at < QUIET_SECONDS:
            return
        open_ones = _open_ones(self._store)
        standing = (open_ones.get(each.operation or "") for each in standing_of(self._store, self._requests))
        named = [each for each in standing if each is not None]
        for operation in named[:_NAMED]:
            self._talk(f"{operation.query} is still {operation.phase.value}: {operation.sentence}")
        if len(named) > _NAMED:
            self._talk(f"and {len(named) - _NAMED} more are open")

    def _say(self) -> None:
        standing = standing_of(self._store, self._requests)
        self._say_who_waits(standing)
        if self._read is None:
            self._read = newest_line(self._store)
        news: list[Event] = []
        for request in standing:
            if request.operation is None or request.operation in self._said:
                continue
            self._say_which(request, request.operation)
            news += self._store.history(operation=request.operation)
        news += self._since()
        for event in sorted(news, key=lambda each: each.sequence or 0):
            last, sequence = self._said.get(event.operation or ""), event.sequence or 0
            if last is None or sequence <= last:
                continue
            self._said[event.operation or ""] = sequence
            self._talk(
                f"{event.at:%H:%M:%S}.{event.at.microsecond // 1000:03d} {event.query} {event.kind}: {event.text}"
            )

    def _since(self) -> Sequence[Event]:
        """What the whole history has that was not read yet: one read, however many operations there are."""
        found = self._store.history(after=self._read or 0, limit=BATCH)
        self._read = max([self._read or 0, *(each.sequence or 0 for each in found)])
        return found

    def _say_which(self, request: Request, operation: str) -> None:
        found = self._store.operation(operation)
        began = f", began at {found.started_at:%H:%M:%S} UTC" if found is not None else ""
        joined = "" if operation == request.id else " (joined)"
        self._talk(f"{request.query}: operation {operation}{joined}{began}")
        self._said[operation] = 0

    def _say_who_waits(self, standing: Sequence[Request]) -> None:
        moves = [each for each in standing if each.kind in MOVES]
        open_ones = [each for each in moves if each.operation is None and each.refused is None]
        unknown = [each for each in open_ones if each.id not in self._waiting]
        under_way = open_operations(self._store) if unknown else ()
        turns = Turns(self._store, self._upstream)
        for request in unknown:
            why = waits(request, under_way, self._at_once)
            turn = turns.turn_of(request)
            why = turn.text if turn is not None and not turn.never else why
            if why is not None:
                self._talk(why)
                self._waiting.add(request.id)


class Counts(Progress):
    """Says of many how many have ended, each time that another twentieth has, and which of them did not get through.

    What is wrong with many in the same words is said of the first.
    """

    _reported = 0
    _ended: frozenset[str] = frozenset()
    _wrong: frozenset[str] = frozenset()
    """What was said to be wrong."""

    def _say(self) -> None:
        standing = standing_of(self._store, self._requests)
        open_ones = _open_ones(self._store)
        ended = {each.id: each for each in standing if each.refused is not None or self._has_ended(each, open_ones)}
        for request in ended.values():
            if request.id not in self._ended:
                self._say_what_failed(request)
        self._ended = frozenset(ended)
        total, open_count = len(standing), sum(each.operation in open_ones for each in standing)
        if len(ended) == self._reported or (len(ended) < total and len(ended) - self._reported < max(1, total // 20)):
            return
        self._reported = len(ended)
        waiting = total - len(ended) - open_count
        self._talk(f"{len(ended)} of {total} have ended, {open_count} in progress, {waiting} waiting")

    def _has_ended(self, request: Request, open_ones: Mapping[str, Operation]) -> bool:
        return request.operation is not None and request.operation not in open_ones

    def _say_what_failed(self, request: Request) -> None:
        operation = outcome_of(self._store, request)
        if _code(request, operation) is ExitCode.DONE:
            return
        text = _sentence(request) if operation is None else f"{operation.outcome}: {operation.sentence}"
        if text not in self._wrong:
            self._wrong |= {text}
            self._talk(f"{request.query}: {text}")


def _open_ones(store: ControllerStore) -> Mapping[str, Operation]:
    """Moves and drills that have not ended, by id."""
    return {each.id: each for each in (*open_operations(store), *open_drills(store))}


_WORST_LAST = (ExitCode.DONE, ExitCode.REFUSED, ExitCode.UNKNOWN, ExitCode.FAILED)
_COLUMNS = ("id", "query", "from", "to", "phase", "outcome", "sentence")

_JOIN = "run the same command again to see how it ended"
_SEE_GATES = "tideover plan {kind} {query} shows every gate"


def nothing_done(output: str, *, many: bool) -> int:
    """Every query is there already: no operation, and no error."""
    if output in {"json", "yaml"}:
        render.document([] if many else None, output)
    return ExitCode.DONE


def result_of(store: ControllerStore, answered: Sequence[Answered], output: str, *, many: bool) -> int:
    """Print what became of requests and return the exit code.

    ``many`` prints an array, in which a request that became no operation is ``{"query", "error": {...}}``. Raises
    ``Refused`` or ``OutcomeUnknown`` when none became one.
    """
    if not any(operation for _, operation in answered):
        return _answer_nothing(answered, output, many=many)
    values = [_value(store, request, operation) for request, operation in answered]
    if output in {"json", "yaml"}:
        render.document(values if many else values[0], output)
    else:
        render.show([value for value in values if "id" in value], output, columns=_COLUMNS)
        for line in _said_once([request for request, operation in answered if operation is None]):
            render.talk(line)
    return max((_code(*each) for each in answered), key=_WORST_LAST.index)


def _answer_nothing(answered: Sequence[Answered], output: str, *, many: bool) -> int:
    turned_down = [request for request, operation in answered if _code(request, operation) is not ExitCode.DONE]
    if not turned_down:
        return nothing_done(output, many=many)
    sentences = "\n".join(_said_once(turned_down))
    if any(request.refused is None for request in turned_down):
        open_yet = [request for request in turned_down if request.refused is None]
        raise OutcomeUnknown(sentences, hint=_JOIN, requested=open_yet)
    raise Refused(sentences, hint=_SEE_GATES.format(kind=turned_down[0].kind, query=turned_down[0].query))


def _said_once(requests: Sequence[Request]) -> list[str]:
    """A line for each sentence, with the queries of which it is true."""
    queries: dict[str, list[str]] = {}
    for request in requests:
        queries.setdefault(_sentence(request), []).append(request.query)
    return [f"{few(names)}: {text}" for text, names in queries.items()]


def _sentence(request: Request) -> str:
    """Without the name of its query."""
    if request.refused is not None:
        return request.refused
    return f"request {request.id} has not begun yet; it expires at {iso(request.expires_at)}"


def _value(store: ControllerStore, request: Request, operation: Operation | None) -> dict[str, object]:
    if operation is not None:
        return operation_shapes.operation_json(operation, store.steps(operation.id), store.evidence(operation.id))
    see_gates = _SEE_GATES.format(kind=request.kind, query=request.query)
    kind, hint = ("outcome-unknown", _JOIN) if request.refused is None else ("refused", see_gates)
    return {
        **request_shapes.request_identity(request),
        **render.error_json(kind, f"{request.query}: {_sentence(request)}", hint),
    }


def _code(request: Request, operation: Operation | None) -> ExitCode:
    if request.refused is not None:
        there = request.refused.startswith(THERE)
        return ExitCode.DONE if there else ExitCode.REFUSED
    if operation is not None and awaits_start(operation):
        return ExitCode.DONE
    if operation is None or operation.outcome is None:
        return ExitCode.UNKNOWN
    return {"done": ExitCode.DONE, "refused": ExitCode.REFUSED}.get(operation.outcome, ExitCode.FAILED)
