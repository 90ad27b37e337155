"""Sending spans by OTLP over HTTP; the seam of opentelemetry, and an extra."""

import logging
from collections.abc import Sequence
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from orchestrator.traces.spans import Span

SEND_SECONDS = 10.0

logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # the sender logs what goes wrong, once


def to_collector(url: str) -> "SpanSink":
    """Of a collector, by the address that takes traces; headers as ``OTEL_EXPORTER_OTLP_HEADERS`` has them."""
    return SpanSink(OTLPSpanExporter(endpoint=url, timeout=SEND_SECONDS))


class SpanSink:
    """A receiver of spans."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._resource = Resource.create({"service.name": "tideover", "service.version": version("tideover")})

    def write(self, spans: Sequence[Span]) -> bool:
        """Whether they were taken."""
        return self._exporter.export([self._made(span) for span in spans]) is SpanExportResult.SUCCESS

    def _made(self, span: Span) -> ReadableSpan:
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
            resource=self._resource,
            attributes=span.attributes,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
            start_time=span.start_ns,
            end_time=span.end_ns,
        )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
