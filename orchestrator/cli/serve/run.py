"""``run``: a runner, the process that hosts queries."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from orchestrator.cli import context
from orchestrator.cli.context import Context, pass_context, this_person
from orchestrator.cli.interpreter import keep_loaded
from orchestrator.errors import ConfigError, ExitCode, UnknownName


@contextmanager
def ending_for_good() -> Iterator[None]:
    """Let a configuration mistake end the process with 78, on which its service manager must not start it again."""
    try:
        yield
    except (ConfigError, UnknownName) as error:
        error.exit_code = ExitCode.MISCONFIGURED
        raise


@click.command()
@click.option(
    "--name",
    required=True,
    metavar="RUNNER",
    shell_complete=context.complete_runner,
    help="Name of a runner in the configuration.",
)
@click.option(
    "--take-over",
    metavar="REASON",
    type=context.PersonText(),
    help="Confirm that the silent process which holds this name on another host has ended, and say how you know.",
)
@context.log
@pass_context
@ending_for_good()
def run(ctx: Context, name: str, take_over: str | None, log: str) -> int:
    """Run a runner until SIGTERM: a Spark driver that hosts the queries assigned to it.

    Only one process may hold a name at a time. A dead process on this host loses its name automatically; the name of a
    silent process on another host is taken only with --take-over, which is saved in the history. If the configuration
    has a mistake, it exits with code 78: correct the mistake before you start it again.

    \b
    Examples:
      tideover run --name a
      tideover -c /etc/tideover.yaml run --name standby
      tideover run --name a --take-over "host one was switched off"
    """
    if name not in ctx.settings.runners:
        known = ", ".join(sorted(ctx.settings.runners)) or "none"
        raise UnknownName(f"runner {name!r} is not declared", hint=f"declared runners: {known}")
    if take_over is not None and not take_over.strip():
        raise click.BadParameter("say how you know that the other process has ended", param_hint="--take-over")
    from streaming.logging_setup import set_up_logs  # imported when needed: what follows loads Spark
    from streaming.spark.runner.registration import NameTakeover
    from streaming.spark.runner.service import run_runner

    set_up_logs(log)
    consent = None if take_over is None else NameTakeover(actor=this_person(), reason=take_over.strip())
    keep_loaded()
    return run_runner(ctx.settings, name, store=ctx.runner_store, base=ctx.base, take_over=consent)
