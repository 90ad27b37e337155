"""``attend``: the attendant of an application that starts its queries itself."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from orchestrator.cli import context
from orchestrator.cli.context import Context, pass_context
from orchestrator.cli.serve.own_moves import OwnMoves
from orchestrator.cli.serve.run import ending_for_good

_MOVES_SECONDS = 5.0
"""How long its own moves may take when the application has ended; a store that hangs keeps no process alive."""


@click.command()
@click.option(
    "--application",
    required=True,
    metavar="NAME",
    help="Name of the application, as the key attach of its queries has it.",
)
@context.log
@pass_context
@ending_for_good()
def attend(ctx: Context, application: str, log: str) -> int:
    """Attend an application: the process that tideover.AttachPlugin starts beside a Spark driver.

    People do not type this command. The plugin starts it, hands over the port and the secret of its driver in the
    environment, and starts it again if it dies. It ends with the application. A move that was requested while the
    application did not run is completed here, where no controller runs.

    \b
    Examples:
      spark-submit --jars companion.jar --conf spark.plugins=tideover.AttachPlugin \\
        --conf spark.tideover.config=/etc/tideover.yaml job.py
    """
    from streaming.logging_setup import set_up_logs  # imported when needed: what follows loads Spark
    from streaming.spark.attach.attendant import run_attendant

    set_up_logs(log)
    with _own_moves(ctx, application):
        code: int = run_attendant(ctx.settings, application, store=ctx.runner_store, base=ctx.base)
    return code


@contextmanager
def _own_moves(ctx: Context, application: str) -> Iterator[None]:
    """Complete the application's own moves beside it. Where a controller has the store, it completes them."""
    if ctx.settings.controller is not None:
        yield
        return
    own = frozenset(name for name, query in ctx.settings.queries.items() if query.attach == application)
    moves = OwnMoves(store=ctx.store, settings=ctx.settings, logs=ctx.log, queries=own)
    keeper = threading.Thread(target=moves.keep, name="own moves", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        moves.close()
        keeper.join(_MOVES_SECONDS)
