"""Verbs that stay: ``run``."""

import click

from orchestrator.cli.world import World, pass_world
from orchestrator.errors import UnknownName


@click.command()
@click.option("--name", required=True, metavar="RUNNER", help="A runner that the configuration declares.")
@pass_world
def run(world: World, name: str) -> int:
    """Run a runner: a Spark driver that hosts the queries assigned to it, until SIGTERM.

    \b
    Examples:
      tideover run --name a
      tideover -c /etc/tideover.yaml run --name standby
    """
    if name not in world.settings.runners:
        known = ", ".join(sorted(world.settings.runners)) or "none"
        raise UnknownName(f"runner {name!r} is not declared", hint=f"declared runners: {known}")
    from streaming.spark.service import run_runner  # imported when needed: it loads Spark

    return run_runner(world.settings, name, store=world.store, base=world.base)
