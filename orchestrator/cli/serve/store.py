"""``store status`` and ``store upgrade``: the schema, which no other verb changes."""

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, confirm, pass_context, require_person
from orchestrator.errors import ExitCode

_COLUMNS = ("store", "found", "known", "current", "steps", "copy")


@click.group()
def store() -> None:
    """Show the schema of the store, create it or upgrade it."""


@store.command()
@context.output
@pass_context
def status(ctx: Context, output: str) -> int:
    """Show which schema the store has, and what an upgrade would do. Changes nothing.

    Exit 0: this version of Tideover can work with the store. Exit 2: it cannot, and every other verb says so too.

    \b
    Example:
      tideover store status
    """
    from state.store.sql.migrate import schema_of

    with ctx.reaching_store():
        schema = schema_of(ctx.store_url)
    if output in tables.PEOPLE:
        for step in schema.steps:
            render.say(f"to do: {step}")
    _show(ctx, output, schema.found, schema.known, schema.steps)
    return ExitCode.DONE if schema.is_current else ExitCode.FAILED


@store.command()
@click.option("--dry-run", is_flag=True, help="Run the upgrade in a transaction and roll it back.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@context.output
@pass_context
def upgrade(ctx: Context, dry_run: bool, yes: bool, output: str) -> int:
    """Create the store in an empty database, or upgrade it to the schema of this version of Tideover.

    Stop the controllers and back up the store first: only the backup can undo an upgrade. Queries run on. If the store
    is a file, a copy is made beside it. The upgrade is one transaction: if it is killed, the store stays as it was. It
    takes the lease, so an older controller that still runs decides nothing more. Refused (exit 2) while an operation
    is open. Already current: exit 0, nothing done.

    \b
    Examples:
      tideover store upgrade --dry-run
      tideover store upgrade
      tideover store upgrade --yes
    """
    from state.store.sql.migrate import copy_store, schema_of, upgrade_store

    with ctx.reaching_store():
        schema = schema_of(ctx.store_url)
        if schema.is_current:
            render.talk(f"the store already has schema {schema.known}: nothing done")
            _show(ctx, output, schema.found, schema.known, ())
            return ExitCode.DONE
        for step in schema.steps:
            render.talk(f"to do: {step}")
        if dry_run:
            upgrade_store(ctx.store_url, rehearse=True)
            render.talk("dry run rolled back: the upgrade would succeed")
            _show(ctx, output, schema.found, schema.known, schema.steps)
            return ExitCode.DONE
        if not yes:
            require_person(hint="to see what it would do: tideover store status")
            confirm("Are the controllers stopped, and do you have a backup?" if schema.found else "Create the store?")
        copy = copy_store(ctx.store_url, schema.found) if schema.found is not None else None
        if copy is not None:
            render.talk(f"copy of the store before the upgrade: {copy}")
        upgrade_store(ctx.store_url)
    _show(ctx, output, schema.known, schema.known, schema.steps, str(copy) if copy is not None else None)
    return ExitCode.DONE


def _show(
    ctx: Context, output: str, found: str | None, known: str, steps: tuple[str, ...], copy: str | None = None
) -> None:
    value = {
        "store": ctx.store_name,
        "found": found,
        "known": known,
        "current": found == known,
        "steps": list(steps),
        "copy": copy,
    }
    if output in {"json", "yaml"}:
        render.document(value, output)
    else:
        render.show([value | {"steps": len(steps)}], output, columns=_COLUMNS)
