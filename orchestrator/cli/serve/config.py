"""``config check`` and ``config show``."""

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, pass_context
from orchestrator.config.masks import masked


@click.group()
def config() -> None:
    """Check the configuration, or show it with defaults filled in and secrets masked."""


@config.command()
@context.output
@pass_context
def check(ctx: Context, output: str) -> None:
    """Check the configuration and list every mistake with its path.

    \b
    Examples:
      tideover config check
      tideover -c /etc/tideover.yaml config check -o json
    """
    settings = ctx.settings
    found = {
        "file": str(ctx.loaded.path),
        "clusters": len(settings.clusters),
        "routes": len(settings.routes),
        "runners": len(settings.runners),
        "queries": len(settings.queries),
    }
    if output in tables.PEOPLE:
        counts = ", ".join(f"{count} {noun}" for noun, count in found.items() if noun != "file")
        render.say(f"{found['file']}: no mistakes; {counts}")
    elif output == "tsv":
        render.show([found], output, columns=list(found))
    else:
        render.document(found, output)


@config.command()
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
@pass_context
def show(ctx: Context, output: str) -> None:
    """Show the configuration, with defaults filled in and secrets masked.

    \b
    Example:
      tideover config show -o json
    """
    render.document(masked(ctx.settings), output)
