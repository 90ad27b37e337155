"""``submit``: an application of the user, started with Tideover's jar and settings."""

import os
import shlex
import sys
from pathlib import Path

import click

from orchestrator.cli import render
from orchestrator.cli.context import Context, did_you_mean, pass_context
from orchestrator.errors import UsageError


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--application", metavar="NAME", help="The name that attach has in the configuration. Default: --name.")
@click.option("--dry-run", is_flag=True, help="Print the command line, and start nothing.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- spark-submit [ARGUMENT]...")
@pass_context
def submit(ctx: Context, application: str | None, dry_run: bool, command: tuple[str, ...]) -> None:
    """Start an application as it is, attended by Tideover.

    Adds the companion's jar and three settings to the command line that follows --, and keeps your own jars and
    plugins. The configuration is checked first. Then this process becomes spark-submit: its output, signals and exit
    code are those of your job.

    \b
    Examples:
      tideover submit -- spark-submit --master yarn job.py 2026-11-30
      tideover submit --application shop -- /opt/spark/bin/spark-submit --class Shop shop.jar
      tideover submit --dry-run -- spark-submit job.py
    """
    # Imported when needed: the jar's module reads what the jar is made from.
    from streaming.companion.jar import companion_jar
    from streaming.spark.attach.submission import defaults_of, parse_submit, read_properties, with_attachment

    try:
        typed = parse_submit(command)
    except ValueError as error:
        raise UsageError(str(error), hint="tideover submit -- spark-submit job.py") from None
    named = application or typed.application
    _check_declared(ctx, named)
    settings = {"spark.tideover.config": str(ctx.loaded.path.resolve())}
    if named is not None:
        settings["spark.tideover.application"] = named
    program = Path(sys.executable).with_name("tideover")
    defaults: dict[str, str] = {}
    for file in reversed(defaults_of(typed, os.environ)):
        try:
            defaults |= read_properties(file.read_text(encoding="utf-8")) if file.is_file() else {}
        except (OSError, ValueError) as error:  # a decoding error is a ValueError, too
            raise UsageError(f"{file} cannot be read as Spark reads it: {error}", hint="correct that file") from None
    if typed.is_cluster(defaults, os.environ):
        render.talk("the driver runs on another host: tideover and the configuration must be there, by the same paths")
    elif program.is_file():
        settings["spark.tideover.command"] = str(program)
    line = with_attachment(typed, jar=companion_jar(render.talk), settings=settings, defaults=defaults)
    if dry_run:
        render.say(shlex.join(line))
        return
    sys.stdout.flush()
    try:
        os.execvp(line[0], line)  # the program that the user typed
    except OSError as error:
        raise UsageError(f"{line[0]} cannot be started: {error.strerror}", hint="name its path") from None


def _check_declared(ctx: Context, application: str | None) -> None:
    """Raises ``UsageError`` where no query of the configuration can be one of this application."""
    declared = ctx.settings.attached
    if not declared:
        raise UsageError("no query in the configuration has attach", hint="docs/adopt.md shows how to describe one")
    if application is not None and application not in declared:
        known = ", ".join(declared)
        raise UsageError(
            f"no query has attach: {application}{did_you_mean(application, declared)}",
            hint=f"declared are {known}; --application names one of them",
        )
