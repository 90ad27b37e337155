"""Spans of closed operations: the same wherever they are written, in no one's way, and none twice."""

from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from orchestrator.cli.serve.control import span_sink_of
from orchestrator.config.load import load
from orchestrator.errors import ConfigError
from orchestrator.traces.otlp import SpanSink, to_collector
from orchestrator.traces.spans import spans_of
from orchestrator.traces.writer import LOOK_SECONDS, PAUSE_SECONDS, TraceWriter
from state.model.entities import Phase
from state.model.measured import Measured
from tests.contract import samples
from tests.contract.samples import AT, SECOND, term_of
from tests.memory_store import MemoryStore
from tests.served import CONFIG

CLOSED = samples.operation(
    outcome="done", phase=Phase.SETTLED, ended_at=AT + 9 * SECOND, measured=Measured(switch_seconds=1.5)
)  # fmt: skip
STEPS = (
    samples.step(sequence=1, name="hold", ended_at=AT + SECOND, outcome="done"),
    samples.step(sequence=2, name="fence", started_at=AT + SECOND, ended_at=AT + 4 * SECOND, outcome="failed"),
    samples.step(sequence=3, name="start", started_at=AT + 4 * SECOND),
)


@dataclass
class World:
    """A store with a leader, and what was written."""

    store: MemoryStore
    term: int | None
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    def writer(self) -> TraceWriter:
        made = TraceWriter(self.store, SpanSink(self.exporter), lambda: self.term)
        made.turn()
        return made

    def closes(self, name: str) -> None:
        closed, term = replace(CLOSED, id=name), self.term or 0
        steps = [replace(step, operation=name) for step in STEPS]
        self.store.record(closed, term=term, steps=steps, events=[samples.event(operation=name)])
        self.store.keep_evidence(closed, {}, term=term, actor="controller:one")

    @property
    def written(self) -> list[str]:
        return [span.name for span in self.exporter.get_finished_spans()]


@pytest.fixture
def world() -> World:
    store = MemoryStore(lambda: AT)
    return World(store, term_of(store))


def test_an_operation_is_a_span_and_each_step_that_ended_is_one_in_it() -> None:
    whole, hold, fence = spans_of(CLOSED, STEPS)
    assert [each.name for each in (whole, hold, fence)] == ["failover revenue", "hold", "fence"]
    assert {each.trace_id for each in (whole, hold, fence)} == {whole.trace_id}
    assert (whole.parent_id, hold.parent_id, fence.parent_id) == (None, whole.span_id, whole.span_id)
    assert whole.end_ns - whole.start_ns == 9_000_000_000
    assert fence.start_ns == hold.end_ns == whole.start_ns + 1_000_000_000
    assert (whole.error, hold.error, fence.error) == ("", "", "failed")
    assert whole.attributes["tideover.switch_seconds"] == 1.5
    assert "tideover.first" not in whole.attributes
    assert spans_of(CLOSED, STEPS) == (whole, hold, fence)
    assert spans_of(replace(CLOSED, id="op-2"), STEPS)[0].trace_id != whole.trace_id


def test_an_operation_that_is_open_has_no_span() -> None:
    assert spans_of(samples.operation(), STEPS) == ()


def test_a_failed_operation_says_why() -> None:
    assert spans_of(replace(CLOSED, outcome="failed", sentence="given up"), ())[0].error == "given up"


def test_operations_that_close_from_now_on_are_written_once(world: World) -> None:
    world.closes("before")
    writer = world.writer()
    world.closes("op-2")
    assert writer.turn() == LOOK_SECONDS
    writer.turn()
    assert world.written == ["failover revenue", "hold", "fence"]
    (whole, *_) = world.exporter.get_finished_spans()
    assert dict(whole.resource.attributes)["service.name"] == "tideover"


def test_a_new_leader_continues_where_the_former_one_was(world: World) -> None:
    writer = world.writer()
    world.closes("op-2")
    writer.turn()
    world.closes("op-3")
    world.term = term_of(world.store, "two")
    world.writer().turn()
    assert world.written == ["failover revenue", "hold", "fence"] * 2
    world.term = None
    world.exporter.clear()
    assert writer.turn() == LOOK_SECONDS
    assert world.written == []


def test_a_collector_that_is_away_gets_what_it_missed(world: World) -> None:
    writer = world.writer()
    world.exporter.shutdown()
    world.closes("op-2")
    world.closes("op-3")
    assert writer.turn() == PAUSE_SECONDS
    (cursor,) = world.store.notice_cursors()
    assert (cursor.failures, cursor.failing_since) == (1, AT)
    world.exporter = InMemorySpanExporter()
    again = TraceWriter(world.store, SpanSink(world.exporter), lambda: world.term)
    assert again.turn() == LOOK_SECONDS
    assert len(world.written) == 6
    assert world.store.notice_cursors()[0].failing_since is None


def test_spans_reach_a_collector_over_http() -> None:
    came: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            came.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        assert to_collector(f"http://127.0.0.1:{server.server_port}/v1/traces").write(spans_of(CLOSED, STEPS))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    names = [span.name for part in came[0].resource_spans for scope in part.scope_spans for span in scope.spans]
    assert names == ["failover revenue", "hold", "fence"]


def test_no_traces_are_written_without_an_address(tmp_path: Path) -> None:
    def sink(text: str) -> object:
        (tmp_path / "tideover.yaml").write_text(CONFIG + text, encoding="utf-8")
        return span_sink_of(load(tmp_path / "tideover.yaml", {}).settings)

    assert sink("") is None
    assert sink("traces: {otlp: http://localhost:4318/v1/traces}\n") is not None
    with pytest.raises(ConfigError):
        sink("traces: {otlp: localhost}\n")
