"""``forget``: delete what the store remembers of a query that was taken out of service."""

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, ask_yes, pass_context, require_person, this_person, unknown_if_lost
from orchestrator.decide.times import iso
from orchestrator.errors import ExitCode
from orchestrator.operation.forget import Leftover, leftover_of
from orchestrator.operation.forget import forget as forget_now

_COLUMNS = ("what", "rows")


@click.command()
@click.argument("query", shell_complete=context.complete_query)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted. Changes nothing.")
@context.reason
@click.option("--yes", is_flag=True, help="Do not ask.")
@context.output
@pass_context
def forget(ctx: Context, query: str, dry_run: bool, reason: str, yes: bool, output: str) -> int:
    """Delete what the store knows of a query that is no longer in the configuration.

    Deletes its assignment, operations, positions and timeline; its history expires by age as usual. Its checkpoints
    and what it wrote are not touched. If it is declared again later, it starts like a new query, from what its
    checkpoint folder holds. Refused (exit 1) while the query is declared, a runner runs it, or an operation or
    request of it is open.

    \b
    Examples:
      tideover forget revenue --dry-run
      tideover forget revenue --reason "replaced by revenue2"
    """
    leftover = leftover_of(ctx.store, ctx.settings, query)
    if dry_run:
        _show(leftover, output, forgotten=False)
        return ExitCode.DONE
    if not yes:
        require_person(hint=f"to see what would be deleted: tideover forget {query} --dry-run")
        rows = [{"what": name, "rows": count} for name, count in leftover.rows._asdict().items() if count]
        render.talk(render.table(rows, _COLUMNS) + "\n")
        render.talk(_warning(leftover))
        ask_yes(f"Delete what the store knows of {query}?")
    with unknown_if_lost(f"the deletion of {query}", hint="run the command again to delete what is left"):
        forget_now(ctx.store, leftover, actor=this_person(), reason=reason)
    if output == "table":
        render.talk(_left(leftover))
    _show(leftover, output, forgotten=True)
    return ExitCode.DONE


def _warning(leftover: Leftover) -> str:
    fact = leftover.fact
    if fact is None or not leftover.is_silent:
        return _left(leftover)
    return (
        f"Runner {fact.runner} on {fact.host} reported {fact.state.value} at {iso(fact.reported_at)} and has been "
        f"silent since: make sure that its process has ended.\n{_left(leftover)}"
    )


def _left(leftover: Leftover) -> str:
    if leftover.checkpoint is None:
        return "The store knows no checkpoint of it."
    return f"The checkpoint {leftover.checkpoint} is kept: delete it and those beside it if you no longer need them."


def _show(leftover: Leftover, output: str, *, forgotten: bool) -> None:
    if output in {"json", "yaml"}:
        value = {
            "query": leftover.query,
            "forgotten": forgotten,
            "rows": leftover.rows._asdict(),
            "checkpoint": leftover.checkpoint,
        }
        render.document(value, output)
        return
    rows = [{"what": name, "rows": count} for name, count in leftover.rows._asdict().items()]
    render.show(rows, output, columns=_COLUMNS)
