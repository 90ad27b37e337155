"""Logs to stderr: lines for people, or one JSON object a line; what is said on stdout stays data.

A trace shows lines of code and never the values of variables: a password may be among them, or a million offsets.
What libraries log goes the same way, and so does what ends a thread, so that a reader of JSON meets nothing else.
"""

import logging
import os
import sys
import threading

import structlog

VARIABLE = "TIDEOVER_LOG"
FORMS = ("text", "json")
_NOISY = ("kafka", "py4j")
"""They log every dropped connection as an error; the caller reports what matters of it."""


def set_up_logs(form: str | None = None) -> None:
    """Configure logging once for the process; ``form`` is one of ``FORMS``, by default what ``TIDEOVER_LOG`` says."""
    as_json = (form or os.environ.get(VARIABLE)) == "json"
    said: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    written: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(sort_keys=True, ensure_ascii=False)]
        if as_json
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    structlog.configure(
        processors=[*said, *written],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*said, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *written],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    threading.excepthook = _report_end_of_thread


def _report_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_type is SystemExit or ended.exc_value is None:
        return
    name = ended.thread.name if ended.thread else None
    structlog.get_logger().error("an unexpected error ended a thread", thread=name, exc_info=ended.exc_value)
