"""``adopt``: what changes for an application that is attached; a dry run, always."""

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, pass_context
from orchestrator.errors import READINESS, UsageError
from state.errors import TideoverError
from state.model.entities import Assignment
from state.settings.keys import Query
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.errors import EmptyCheckpoint
from streaming.spark.handback import require_not_released
from streaming.spark.hosting import absolute


@click.command()
@click.argument("query", shell_complete=context.complete_query)
@context.output
@pass_context
def adopt(ctx: Context, query: str, output: str) -> int:
    """Show what changes when an application of yours is attached. Changes nothing.

    Compares the checkpoint with the sources that the configuration declares, and lists what is written where, from the
    next start of the application to the first move. Nothing is adopted by this command: the next start with the plugin
    does it. Exit 1: the next start is refused with it; 3: it cannot be read from here.

    \b
    Examples:
      tideover adopt archive
      tideover adopt archive -o json
    """
    declared = ctx.query(query)
    if declared.attach is None:
        raise UsageError(f"{query} is hosted by a runner, not by an application", hint="tideover run starts it")
    row = ctx.store.assignment(query)
    checkpoint = row.checkpoint if row is not None else absolute(declared.checkpoint, ctx.base)
    first = Assignment.first(
        query, cluster=declared.clusters[0], runner=declared.attach, checkpoint=checkpoint, now=ctx.store.now()
    )
    ready, batch, finding = _finding(declared, row or first, is_known=row is not None)
    coming = changes(declared, checkpoint)
    if output in tables.PEOPLE | {"tsv"}:
        render.show(coming, output, columns=("when", "what"))
        render.talk(finding)
    else:
        value = {
            "query": query, "application": declared.attach, "checkpoint": checkpoint, "batch": batch, "ready": ready,
            "finding": finding, "changes": coming,
        }  # fmt: skip
        render.document(value, output)
    return READINESS[ready]


def _finding(declared: Query, row: Assignment, *, is_known: bool) -> tuple[bool | None, int | None, str]:
    """Whether the next start is admitted with the checkpoint, its newest committed batch, and a sentence.

    ``row``: the query's own where it ``is_known``, else the one that its first start makes.
    """
    files, checkpoint = LocalFiles(), row.checkpoint
    is_here = "://" not in checkpoint
    if not (is_here or is_known):
        return None, None, f"{checkpoint} is not on a local or mounted disk, so it cannot be read from here"
    sources = {name: source.topics for name, source in declared.sources.items()}
    try:
        if is_here:
            require_not_released(files, row)
        if is_known:
            return True, None, f"adopted already: it runs on {row.cluster} under epoch {row.epoch}"
        report = read_checkpoint(files, checkpoint, sources, placed=Placed.of(row))
    except EmptyCheckpoint:
        return True, None, f"{checkpoint} is not there yet: the first start makes it, as without Tideover"
    except TideoverError as error:
        return False, None, f"{error}; {error.hint}" if error.hint else str(error)
    if report.batch is None:
        return True, None, "it has committed no batch yet"
    return True, report.batch, f"batch {report.batch} is the last one committed, and its sources are the declared ones"


def changes(declared: Query, checkpoint: str) -> list[dict[str, object]]:
    """What is written where, and when."""
    name = declared.attach
    return [
        {"when": "now", "what": "nothing"},
        {"when": f"next start of {name}", "what": "the jar appends an extension to spark.sql.extensions and sets "
                                                  "spark.sql.streaming.checkpointFileManagerClass"},
        {"when": f"next start of {name}", "what": f"{checkpoint}/_tideover_epochs gets a file that names the run"},
        {"when": f"next start of {name}", "what": "offsets, commits and state stay as Spark writes them: without the "
                                                  "plugin plain Spark continues"},
        {"when": "first move", "what": f"{checkpoint}/_tideover_mappings gets a file, and offsets carry the mark of "
                                       "their cluster"},
        {"when": "to leave after that", "what": "tideover release"},
    ]  # fmt: skip
