"""What may be read: the values of the verbs ``watch``, ``list``, ``show``, ``show-op``, ``history`` and so on.

Everything comes from the store, none from a cluster, so that a page that is left open reads only the store. The
status is read at most once a second, however many look at it.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.config.masks import masked
from orchestrator.decide.desk.status import QueryStatus, Status, known_labels, only_labelled
from orchestrator.decide.times import parse_time
from orchestrator.errors import UnknownName, UsageError
from orchestrator.facts.status import StatusReader
from orchestrator.shapes import operation_shapes, query_shapes
from orchestrator.shapes.status import query_json, samples_json, status_json
from orchestrator.shapes.timeline import spans, standing, steps
from state.errors import StoreUnavailable
from state.model.entities import EVERY_KIND
from state.model.timeline import SourcePartition, instant_of
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock
from streaming.secrets import Broken

STATUS_SECONDS = 1.0
"""How old a status may be that is shown."""


class Parameters(BaseModel):
    """What may stand behind the question mark of a path: another name is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LabelParameters(Parameters):
    """Which queries."""

    label: str | None = Field(
        default=None,
        max_length=500,
        pattern=r"^[^=,]+=[^=,]+(,[^=,]+=[^=,]+)*$",
        description="only queries with this label: KEY=VALUE; of several, with commas between them, all must match",
    )


class OperationsParameters(Parameters):
    """Which operations."""

    query: str | None = Field(default=None, description="only of this query")
    only_open: bool = Field(default=False, description="only those that are open")
    limit: int = Field(default=100, ge=1, le=1000, description="at most this many, the newest")


class HistoryParameters(Parameters):
    """Which lines of the history."""

    query: str | None = Field(default=None, description="only of this query")
    operation: str | None = Field(default=None, description="only of this operation")
    since: int = Field(default=0, ge=0, description="only lines with a higher sequence than this")
    limit: int = Field(default=200, ge=1, le=10_000, description="at most this many, the newest")


class SamplesParameters(Parameters):
    """Which samples."""

    since: str = Field(default="-6h", description="only from this time on")


class TimelineParameters(Parameters):
    """Which part of a timeline."""

    at: str | None = Field(default=None, description="only the position at this time")
    since: str | None = Field(default=None, description="only from this time on")
    topic: str | None = Field(default=None, description="only this topic")
    partition: int | None = Field(default=None, ge=0, description="only this partition")
    every_step: bool = Field(default=False, description="every step, instead of one line per partition")


@dataclass
class Reads:
    """Each method is one path; several threads may call them. All of them raise ``StoreError``."""

    store: ControllerStore
    settings: Tideover
    clock: Clock
    _reader: StatusReader = field(init=False)
    _newest: Status | None = field(init=False, default=None)
    _read_at: float = field(init=False, default=0.0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._reader = StatusReader(self.store, self.settings, self.clock)

    def status_now(self) -> Status:
        """The status, at most ``STATUS_SECONDS`` old."""
        with self._lock:
            now = self.clock.monotonic()
            if self._newest is None or now - self._read_at >= STATUS_SECONDS:
                self._newest = self._reader.read()
                self._read_at = now
            return self._newest

    def labelled(self, status: Status, requested: LabelParameters) -> Status:
        """The part of a status that is requested. Raises ``UsageError`` where no query has such labels."""
        if requested.label is None:
            return status
        pairs = [text.partition("=") for text in requested.label.split(",")]
        found = only_labelled(status, [(key, value) for key, _, value in pairs])
        if not found.queries:
            known = ", ".join(known_labels(self.settings)) or "none"
            raise UsageError("no query has this label", hint=f"labels of queries: {known}")
        return found

    def status(self, requested: LabelParameters) -> Mapping[str, object]:
        """Everything at one moment. Raises ``UsageError``."""
        return status_json(self.labelled(self.status_now(), requested))

    def clusters(self) -> object:
        """The verdict on each cluster."""
        return self.status(LabelParameters())["clusters"]

    def queries(self, requested: LabelParameters) -> Sequence[object]:
        """Every query, in short. Raises ``UsageError``."""
        status = self.labelled(self.status_now(), requested)
        return [query_shapes.list_row(query, status.at) for query in status.queries]

    def query(self, name: str) -> Mapping[str, object]:
        """One query with its positions and copies. Raises ``UnknownName``."""
        status, shown = self._known(name)
        return query_json(self.store, self.settings.queries.get(name), shown, status.at)

    def operations(self, requested: OperationsParameters) -> Sequence[object]:
        """Operations, newest first, drills included."""
        found = self.store.operations(
            query=requested.query, only_open=requested.only_open, limit=requested.limit, kinds=EVERY_KIND
        )  # fmt: skip
        return [{**operation_shapes.move_row(each), "query": each.query} for each in found]

    def operation(self, operation_id: str) -> Mapping[str, object]:
        """One operation with steps, plan and its place in the chain of evidence. Raises ``UnknownName``."""
        found = self.store.operation(operation_id)
        if found is None:
            raise UnknownName("the store knows no such operation", hint="/api/operations lists them")
        return operation_shapes.operation_json(found, self.store.steps(found.id), self.store.evidence(found.id))

    def history(self, requested: HistoryParameters) -> Mapping[str, object]:
        """The newest lines, oldest first; ``more`` where lines between ``since`` and the first one are left out."""
        found = self.store.history(
            query=requested.query, operation=requested.operation, after=requested.since, limit=requested.limit + 1
        )  # fmt: skip
        events = [operation_shapes.event_row(event) for event in found[-requested.limit :]]
        return {"events": events, "more": len(found) > requested.limit}

    def timeline(self, name: str, requested: TimelineParameters) -> Sequence[object]:
        """How far a query had read at which time. Raises ``UnknownName`` and ``UsageError``."""
        self._known(name)
        if requested.at is not None and (requested.since is not None or requested.every_step):
            raise UsageError("at cannot be combined with since or every_step")

        def wanted(lane: SourcePartition) -> bool:
            return requested.topic in {None, lane.topic} and requested.partition in {None, lane.partition}

        if requested.at is not None:
            at_ms = self._time(requested.at)
            stretch = self.store.timeline_at(name, instant_of(at_ms))
            return [] if stretch is None else standing(stretch, at_ms, wanted)
        since = None if requested.since is None else instant_of(self._time(requested.since))
        kept = self.store.timeline(name, since=since)
        return [row for each in kept for row in steps(each, wanted)] if requested.every_step else spans(kept, wanted)

    def samples(self, name: str, requested: SamplesParameters) -> Mapping[str, object]:
        """What checks measured of a query's standby, a minute apart. Raises ``UnknownName`` and ``UsageError``."""
        self._known(name)
        kept = self.store.standby_samples(name, since=instant_of(self._time(requested.since)))
        return samples_json(kept, self.limit_of(name))

    def limit_of(self, name: str) -> float:
        """``policy.max_exposure`` of a query, in seconds."""
        return self.settings.policy_of(name).max_exposure.total_seconds()

    def config(self) -> Mapping[str, object]:
        """The configuration of this controller, with defaults, secrets masked."""
        try:
            return masked(self.settings)
        except Broken as broken:
            raise StoreUnavailable(f"the store's URL cannot be read: {broken.why}") from None

    def _known(self, name: str) -> tuple[Status, QueryStatus]:
        status = self.status_now()
        shown = next((each for each in status.queries if each.query == name), None)
        if shown is None:
            raise UnknownName("no query has that name", hint="/api/queries lists them")
        return status, shown

    def instant(self, text: str) -> datetime:
        """A time as it was typed. Raises ``UsageError``."""
        return instant_of(self._time(text))

    def _time(self, text: str) -> int:
        try:
            return parse_time(text, self.store.now())
        except ValueError as error:
            raise UsageError(str(error)) from None
