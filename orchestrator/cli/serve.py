"""Verbs that stay: ``run`` and ``control``."""

import signal
import threading

import click

from orchestrator.cli import options
from orchestrator.cli.person import this_person
from orchestrator.cli.world import World, pass_world
from orchestrator.errors import UnknownName


@click.command()
@click.option("--name", required=True, metavar="RUNNER", help="A runner that the configuration declares.")
@click.option(
    "--take-over",
    metavar="REASON",
    help="Answer for it that the silent process which has the name, on a host that cannot be looked at, has ended.",
)
@options.log
@pass_world
def run(world: World, name: str, take_over: str | None, log: str) -> int:
    """Run a runner: a Spark driver that hosts the queries assigned to it, until SIGTERM.

    One process has a name at a time. A dead one of this host is recognised; the name of a silent one elsewhere is
    taken only with --take-over, which is kept in the history.

    \b
    Examples:
      tideover run --name a
      tideover -c /etc/tideover.yaml run --name standby
      tideover run --name a --take-over "host one was switched off"
    """
    if name not in world.settings.runners:
        known = ", ".join(sorted(world.settings.runners)) or "none"
        raise UnknownName(f"runner {name!r} is not declared", hint=f"declared runners: {known}")
    if take_over is not None and not take_over.strip():
        raise click.BadParameter("say how you know that the other process has ended", param_hint="--take-over")
    from streaming.logs import set_up_logs  # imported when needed: what follows loads Spark
    from streaming.spark.registration import TakeOver
    from streaming.spark.service import run_runner

    set_up_logs(log)
    consent = None if take_over is None else TakeOver(actor=this_person(), reason=take_over.strip())
    return run_runner(world.settings, name, store=world.store, base=world.base, take_over=consent)


@click.command()
@click.option("--name", metavar="NAME", help="What others call this controller; the host's name unless said.")
@options.log
@pass_world
def control(world: World, name: str | None, log: str) -> int:
    """Run a controller: watch the clusters, carry out what is asked and what policy allows, until SIGTERM.

    Several may run; one leads, the others look on and take over when it is gone. It moves nothing by itself unless
    the configuration says policy.automatic: true. What enters the history is logged, too, whoever wrote it.

    \b
    Examples:
      tideover control
      tideover -c /etc/tideover.yaml control --name site-two --log json
    """
    from orchestrator.chronicle import Chronicle
    from orchestrator.controller import run_controller  # imported when needed: it loads the links to Kafka
    from streaming.logs import set_up_logs

    set_up_logs(log)
    stop, chronicle = threading.Event(), Chronicle(world.store)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    chronicle.begin()
    try:
        return run_controller(world.settings, name, store=world.store, stop=stop)
    finally:
        chronicle.close()
