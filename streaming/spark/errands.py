"""What controllers ask of a runner, done in a few threads: each intent once at a time, and again without harm."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from state.errors import StoreError, TideoverError
from state.model import Assignment, Intent, IntentKind, IntentState
from state.protocol import Failure, FenceRequest, InspectRequest, PrepareRequest, ReleaseRequest
from streaming.spark.carry import prepare
from streaming.spark.checkpoint import read_checkpoint
from streaming.spark.facts import about, bound
from streaming.spark.fence import Guard, fence
from streaming.spark.hosted import Hosted
from streaming.spark.hosting import Hosting
from streaming.spark.jvm import cause_of
from streaming.spark.launch import FileSinks
from streaming.spark.plant import release

_THREADS = 8
_CATCH_UP_SECONDS = 2.0
"""How long a fence waits until the store has the newest positions: it may be slow, or just be back."""

Result = Mapping[str, object]
HostedOf = Callable[[str], Sequence[Hosted]]


class UnknownQuery(TideoverError):
    """The intent names a query that this runner does not know."""

    kind = "unknown-query"


class Overtaken(TideoverError):
    """The intent is of the past: while it is asked its epoch is held, so nothing of that epoch or a later one runs."""

    kind = "overtaken"


class Errands:
    """Takes intents and reports their results."""

    def __init__(self, hosting: Hosting, hosted_of: HostedOf, sinks: FileSinks) -> None:
        self._hosting = hosting
        self._hosted_of = hosted_of
        self._sinks = sinks
        self._guard = Guard(
            instance=hosting.instance,
            here=hosting.here,
            spark=hosting.settings.spark,
            files=hosting.files,
            knows=lambda operation: hosting.store.operation(operation) is not None,
        )
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="intent")
        self._lock = threading.Lock()
        self._taken: dict[str, Intent | None] = {}

    def take(self, pending: Sequence[Intent]) -> None:
        """Begin what is new of these; report again what could not be reported."""
        with self._lock:
            gone = set(self._taken) - {intent.id for intent in pending}
            for done in [each for each in gone if self._taken[each] is not None]:
                del self._taken[done]
            unreported = [answer for answer in self._taken.values() if answer is not None]
            new = [intent for intent in pending if intent.id not in self._taken]
            self._taken |= {intent.id: None for intent in new}
        for answer in unreported:
            self._hosting.store.report(answer)
        for intent in new:
            self._pool.submit(self._answer, intent)

    def close(self) -> None:
        """Take nothing more; what is under way is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, intent: Intent) -> None:
        log = bound(
            {"query": intent.query, "epoch": intent.epoch, "operation": intent.operation, "intent": intent.name}
        )
        try:
            done = replace(intent, state=IntentState.DONE, result=self._perform(intent))
            log.info("intent done")
        except TideoverError as error:
            done = _failed(intent, Failure(kind=error.kind, text=str(error), hint=error.hint))
        except Exception as error:
            log.exception("intent failed")
            done = _failed(intent, Failure(kind="internal", text=cause_of(error)))
        if done.state is IntentState.FAILED:
            log.warning("intent failed", **dict(done.result or {}))
        done = replace(done, ended_at=self._hosting.now())
        with self._lock:
            self._taken[intent.id] = done
        try:
            self._hosting.store.report(done)
        except StoreError as error:
            log.warning("result not reported yet", error=str(error))

    def _perform(self, intent: Intent) -> Result:
        if intent.query not in self._hosting.settings.queries:
            raise UnknownQuery(f"query {intent.query} is not in this runner's configuration")
        newest = max((each.epoch for each in self._hosted_of(intent.query)), default=0)
        if newest >= intent.epoch:
            raise Overtaken(f"{intent.query} runs here under epoch {newest}; epoch {intent.epoch} is of the past")
        row = self._hosting.store.assignment(intent.query)
        cluster = row.cluster if row is not None else self._hosting.query(intent.query).clusters[0]
        declared = self._hosting.declared(intent.query, cluster)
        files = self._hosting.files
        match intent.kind:
            case IntentKind.INSPECT:
                asked = InspectRequest.of(intent.request)
                sink = self._file_sink(row)
                return read_checkpoint(files, asked.checkpoint, declared, file_sink=sink).as_json()
            case IntentKind.FENCE:
                request = FenceRequest.of(intent.request)
                hosted = self._hosted_of(intent.query)
                report = fence(self._guard, request, hosted, declared, lambda: self._sink_of(hosted, row))
                self._hosting.watch.catch_up(cluster, _CATCH_UP_SECONDS)
                return report.as_json()
            case IntentKind.PREPARE:
                return prepare(files, PrepareRequest.of(intent.request), declared).as_json()
            case IntentKind.RELEASE:
                return {"released": list(release(files, ReleaseRequest.of(intent.request)))}

    def _sink_of(self, hosted: Sequence[Hosted], row: Assignment | None) -> str | None:
        """A query that ran here has told already; no failover waits for an import then."""
        told = next((each.sink for each in hosted if each.sink is not None), None)
        return self._file_sink(row) if told is None else told.folder

    def _file_sink(self, row: Assignment | None) -> str | None:
        """A pipeline that cannot be asked does not stop a fence: its sink counts as unknown then."""
        if row is None:
            return None
        try:
            return self._sinks.folder(row)
        except TideoverError as error:
            bound(about(row)).warning("sink unknown", error=str(error))
        except Exception as error:  # noqa: BLE001 - reading a source runs Spark's analysis, which raises what it likes
            bound(about(row)).warning("sink unknown", error=cause_of(error))
        return None


def _failed(intent: Intent, failure: Failure) -> Intent:
    return replace(intent, state=IntentState.FAILED, result=failure.as_json())
