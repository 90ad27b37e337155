"""``control``: a controller, which watches clusters and sees operations through."""

import signal
import threading

import click

from orchestrator.cli import context
from orchestrator.cli.context import World, pass_world
from orchestrator.cli.serve.run import ending_for_good


@click.command()
@click.option("--name", metavar="NAME", help="What others call this controller; the host's name unless said.")
@context.log
@pass_world
@ending_for_good()
def control(world: World, name: str | None, log: str) -> int:
    """Run a controller: watch the clusters, carry out what is asked and what policy allows, until SIGTERM.

    Several may run; one leads, the others look on and take over when it is gone. It moves nothing by itself unless
    the configuration says policy.automatic: true. What enters the history is logged, too, whoever wrote it. A mistake
    in the configuration ends it with exit code 78: starting it again does not help.

    \b
    Examples:
      tideover control
      tideover -c /etc/tideover.yaml control --name site-two --log json
    """
    from orchestrator.controller import run_controller  # imported when needed: it loads the links to Kafka
    from orchestrator.history_log import Chronicle
    from streaming.logging_setup import set_up_logs

    settings = world.settings  # first: a mistake in it is said by the verb, and not logged
    set_up_logs(log)
    stop, chronicle = threading.Event(), Chronicle(world.store, kept=settings.retention.history)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    chronicle.begin()
    try:
        return run_controller(settings, name, store=world.store, stop=stop)
    finally:
        chronicle.close()
