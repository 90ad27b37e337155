"""How places are looked for, as the settings of a query and of its route say. Pure."""

from datetime import timedelta

from state.settings import Query, Route
from streaming.resume.model import Rules

DEFAULT_BUFFER = timedelta(minutes=15)
"""Stands in for ``buffer: measured`` where too little was measured."""


def rules_of(query: Query, on_no_match: str, route: Route | None) -> Rules:
    """How places are looked for, as the settings of the query and of its route say."""
    buffer = DEFAULT_BUFFER if query.buffer == "measured" else query.buffer
    isolation = {source.options.get("kafka.isolation.level") for source in query.sources.values()}
    return Rules(
        methods=query.methods,
        buffer_ms=round(buffer.total_seconds() * 1000),
        on_no_match=on_no_match,
        read_committed="read_committed" in isolation,
        keeps_offsets=route is not None and route.keeps_offsets,
        offset_syncs=route.offset_syncs if route is not None else None,
    )
