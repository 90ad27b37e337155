"""``control``: a controller, which watches clusters and sees operations through."""

import signal
import threading
from typing import TYPE_CHECKING

import click

from orchestrator.cli import context
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.interpreter import keep_loaded
from orchestrator.cli.serve.run import ending_for_good
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from orchestrator.http.server import HttpServer
    from orchestrator.notify.teller import Channel
    from orchestrator.traces.writer import Sink
    from state.settings.keys import Tideover
    from streaming.pulse import Pulse


@click.command()
@click.option("--name", metavar="NAME", help="Name of this controller. Default: the host's name.")
@context.log
@pass_context
@ending_for_good()
def control(ctx: Context, name: str | None, log: str) -> int:
    """Run a controller until SIGTERM: it watches the clusters and carries out moves.

    Several controllers may run; one leads, and another takes over when it is gone. It moves queries automatically only
    if the configuration says policy.automatic: true. Every line of the history is also logged. With http.listen in the
    configuration it serves the status over HTTP, whether it leads or not. If the configuration has a mistake, it exits
    with code 78: correct the mistake before you start it again.

    \b
    Examples:
      tideover control
      tideover -c /etc/tideover.yaml control --name site-two --log json
    """
    from orchestrator.controller import run_controller  # imported when needed: it loads the links to Kafka
    from orchestrator.history_log import HistoryLog
    from streaming.logging_setup import set_up_logs
    from streaming.pulse import own_pulse

    settings = ctx.settings  # first: a mistake in it is said by the verb, and not logged
    set_up_logs(log)
    channels = channels_of(settings)
    spans = span_sink_of(settings)
    stop, history_log = threading.Event(), HistoryLog(ctx.store, kept=settings.retention.history)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    pulse = own_pulse()
    keep_loaded()
    http = _http(ctx, pulse) if settings.http.is_on else None
    history_log.begin()
    if http is not None:
        http.begin()
    try:
        return run_controller(settings, name, store=ctx.store, stop=stop, pulse=pulse, channels=channels, spans=spans)
    finally:
        if http is not None:
            http.close()
        history_log.close()


def channels_of(settings: "Tideover") -> "dict[str, Channel]":
    """Raises ``ConfigError``."""
    if not settings.notify.targets:
        return {}
    try:
        from orchestrator.notify.apprise_channel import AppriseChannel  # imported when needed: it is an extra
    except ImportError:
        raise ConfigError(
            "notify.targets needs apprise, which is not installed", hint="pip install 'tideover[notify]'"
        ) from None
    return {target.name: AppriseChannel(target) for target in settings.notify.targets}


def span_sink_of(settings: "Tideover") -> "Sink | None":
    """Raises ``ConfigError``."""
    if settings.traces.otlp is None:
        return None
    try:
        from orchestrator.traces.otlp import to_collector  # imported when needed: it is an extra
    except ImportError:
        raise ConfigError(
            "traces.otlp needs opentelemetry, which is not installed", hint="pip install 'tideover[otel]'"
        ) from None
    return to_collector(settings.traces.otlp)


def _http(ctx: Context, pulse: "Pulse") -> "HttpServer":
    from orchestrator.http.server import HttpServer  # imported when needed: most controllers serve no HTTP
    from state.store.sql.migrate import open_store
    from streaming.clocks import SystemClock

    return HttpServer(ctx.settings, lambda: open_store(ctx.store_url), pulse, SystemClock())
