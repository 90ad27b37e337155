"""The store as a runner needs it, behind a controller.

Every rule stays where the store is: epochs, compare-and-set and time are the store's, and what a token allows is judged
by the controller. A controller that does not answer is a store that is away, with the same error and the same
consequences.
"""

import json
import ssl
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from state.errors import (
    Conflict,
    Damaged,
    NotAllowed,
    RowRefused,
    SchemaNewer,
    SchemaOlder,
    StaleTerm,
    StoreError,
    StoreUnavailable,
)
from state.model.cluster_status import ProbeReport
from state.model.entities import Assignment, EndSample, Event, Intent, Operation, Position, QueryFact, RunnerFact
from state.model.found_places import FoundPlace
from state.model.maintenance import CleanedFiles, FormerCheckpoint, ReadinessFact
from state.model.pins import Pin
from state.model.timeline import Stretch
from state.store.remote.http_connections import ANSWER_SECONDS, Answer, HttpConnections
from state.store.remote.runner_calls import CALLS, MAX_BODY_BYTES, PATH, WAIT_SECONDS
from state.store.runner_store import RunnerStore
from state.store.wakeups import Wakeups
from state.store.write_checks import check_adopted, check_kept, check_reported

_ERRORS: Mapping[str, type[StoreError]] = {
    each.kind: each
    for each in (
        StoreError, StoreUnavailable, StaleTerm, RowRefused, Conflict, Damaged, NotAllowed, SchemaNewer, SchemaOlder
    )
}  # fmt: skip
_AWAY = frozenset({401, 408, 429, 502, 503, 504})
"""Answers behind which trying again can help: a token that is being rotated, a proxy without its controller."""


def open_remote_store(
    urls: Sequence[str],
    token: Callable[[], str],
    *,
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
) -> "RemoteStore":
    """A store behind the controllers at these addresses. ``ca``: who signed their certificates; None: as the system
    knows. Raises ``StoreError`` where a certificate cannot be read.
    """
    try:
        tls = ssl.create_default_context(cafile=ca)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        if cert is not None:
            tls.load_cert_chain(cert, key)
    except OSError as error:  # SSLError is one
        raise StoreError(f"a certificate for the controller cannot be read: {error}") from None
    return RemoteStore(HttpConnections(urls, token, tls))


class RemoteStore(RunnerStore):
    """Each method sends one call of the table."""

    def __init__(self, connections: HttpConnections) -> None:
        self._connections = connections

    def close(self) -> None:
        """Let the connections go."""
        self._connections.close()

    def _call(self, name: str, /, **given: Any) -> Any:
        """What the controller answers. Raises ``StoreError``."""
        call = CALLS[name]
        body = call.write(given)
        if len(body) > MAX_BODY_BYTES:
            raise StoreError(
                f"{name} has {len(body)} bytes, and a controller takes {MAX_BODY_BYTES}",
                hint="give this runner the store itself, by the key store",
            )
        seconds = ANSWER_SECONDS + (given["seconds"] if name == "await_change" else 0.0)
        answer = self._connections.post(
            f"{PATH}/{name}", body, is_repeatable=call.is_repeatable, seconds=seconds
        )  # fmt: skip
        if answer.code != 200:
            raise _error_in(answer)
        try:
            return call.read_result(answer.body)
        except ValueError as error:
            raise StoreError(
                f"{answer.url} answered {name} with what this version does not read: {error}",
                hint="install the same version of Tideover on the controllers and here",
            ) from None

    # -- leading ---------------------------------------------------------------------------------------------------
    def now(self) -> datetime:
        return self._call("now")  # type: ignore[no-any-return] # each result is read as the type of its call

    def wakeups(self) -> Wakeups:
        return Wakeups(self._listen)

    def _listen(self, over: threading.Event) -> Generator[bool, None, None]:
        mark = ""
        while not over.is_set():
            now = self._call("await_change", mark=mark, seconds=WAIT_SECONDS)
            yield now != mark
            mark = now

    # -- assignments -----------------------------------------------------------------------------------------------
    def assignments(self) -> Sequence[Assignment]:
        return self._call("assignments")  # type: ignore[no-any-return]

    def assignment(self, query: str) -> Assignment | None:
        return self._call("assignment", query=query)  # type: ignore[no-any-return]

    def adopt(self, assignment: Assignment) -> Assignment:
        check_adopted(assignment)
        return self._call("adopt", assignment=assignment)  # type: ignore[no-any-return]

    # -- operations ------------------------------------------------------------------------------------------------
    def operation(self, operation_id: str) -> Operation | None:
        return self._call("operation", operation_id=operation_id)  # type: ignore[no-any-return]

    # -- intents ---------------------------------------------------------------------------------------------------
    def pending_intents(self, runner: str) -> Sequence[Intent]:
        return self._call("pending_intents", runner=runner)  # type: ignore[no-any-return]

    def report(self, intent: Intent, *, term: int | None = None) -> bool:
        _refuse_term(term)
        check_reported(intent)
        return self._call("report", intent=intent)  # type: ignore[no-any-return]

    # -- facts -----------------------------------------------------------------------------------------------------
    def register(self, fact: RunnerFact) -> RunnerFact | None:
        return self._call("register", fact=fact)  # type: ignore[no-any-return]

    def unregister(self, runner: str, instance: str) -> None:
        self._call("unregister", runner=runner, instance=instance)

    def runners(self) -> Sequence[RunnerFact]:
        return self._call("runners")  # type: ignore[no-any-return]

    def report_query(self, fact: QueryFact) -> bool:
        return self._call("report_query", fact=fact)  # type: ignore[no-any-return]

    def query_facts(self, *, query: str | None = None) -> Sequence[QueryFact]:
        return self._call("query_facts", query=query)  # type: ignore[no-any-return]

    def report_place(self, found: FoundPlace) -> None:
        self._call("report_place", found=found)

    def readiness(self, *, query: str | None = None) -> Sequence[ReadinessFact]:
        return self._call("readiness", query=query)  # type: ignore[no-any-return]

    def found_place(self, query: str) -> FoundPlace | None:
        return self._call("found_place", query=query)  # type: ignore[no-any-return]

    def keep_mapping(self, query: str, name: str, content: str) -> None:
        self._call("keep_mapping", query=query, name=name, content=content)

    def mappings(self, query: str) -> Mapping[str, str]:
        return self._call("mappings", query=query)  # type: ignore[no-any-return]

    def save_positions(self, positions: Iterable[Position]) -> None:
        if rows := list(positions):
            self._call("save_positions", positions=rows)

    def save_ends(self, samples: Iterable[EndSample]) -> None:
        if rows := list(samples):
            self._call("save_ends", samples=rows)

    # -- timelines -------------------------------------------------------------------------------------------------
    def save_timeline(self, stretch: Stretch, *, keep: timedelta) -> None:
        check_kept(keep)
        self._call("save_timeline", stretch=stretch, keep=keep)

    # -- watching --------------------------------------------------------------------------------------------------
    def save_probe_reports(self, seen: Iterable[ProbeReport]) -> None:
        if rows := list(seen):
            self._call("save_probe_reports", seen=rows)

    # -- which cluster has a name ----------------------------------------------------------------------------------
    def pin(self, pin: Pin, *, event: Event) -> Pin:
        raise NotAllowed(f"{pin.cluster} is pinned by a controller, of what it sees there")

    def pins(self) -> Sequence[Pin]:
        return self._call("pins")  # type: ignore[no-any-return]

    # -- upkeep ----------------------------------------------------------------------------------------------------
    def to_clean(self, runner: str) -> Sequence[FormerCheckpoint]:
        return self._call("to_clean", runner=runner)  # type: ignore[no-any-return]

    def report_cleaned(self, former: FormerCheckpoint, outcome: CleanedFiles | str, *, event: Event) -> bool:
        return self._call("report_cleaned", former=former, outcome=outcome, event=event)  # type: ignore[no-any-return]

    # -- history ---------------------------------------------------------------------------------------------------
    def note(self, event: Event, *, term: int | None = None) -> None:
        _refuse_term(term)
        self._call("note", event=event)


def _refuse_term(term: int | None) -> None:
    if term is not None:
        raise NotAllowed("a runner writes without a term: only a controller leads")


def _error_in(answer: Answer) -> StoreError:
    """The error that a controller reports, of the same class; of anything else that it is not Tideover's."""
    try:
        found = json.loads(answer.body)["error"]
        kind, text, hint = str(found["kind"]), str(found["text"]), str(found["hint"] or "")
    except (ValueError, TypeError, KeyError):
        kind, text, hint = "", f"it answered with code {answer.code}, which is no answer of a controller", ""
    shown = _ERRORS.get(kind)
    if shown is not None:
        return shown(text, hint=hint)
    away = StoreUnavailable if answer.code in _AWAY else StoreError
    return away(f"the controller at {answer.url} refused the call: {text}", hint=hint)
