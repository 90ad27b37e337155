"""Logs to stderr: lines for people, or one JSON object a line with ``TIDEOVER_LOG=json``."""

import logging
import os
import sys

import structlog


def set_up_logs() -> None:
    """Configure structlog once for the process; what is said on stdout stays data."""
    as_json = os.environ.get("TIDEOVER_LOG") == "json"
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(sort_keys=True)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([structlog.processors.format_exc_info] if as_json else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs every dropped callback connection as an error
