"""The parser's root, and the edge where errors become exit codes."""

import sys
from collections.abc import Sequence
from importlib import metadata

import click

from orchestrator.cli.act import failover, plan
from orchestrator.cli.ends import offsets
from orchestrator.cli.look import history, list_queries, show, show_operation
from orchestrator.cli.render import print_error
from orchestrator.cli.serve import run
from orchestrator.cli.settings import config
from orchestrator.cli.world import World
from orchestrator.errors import ExitCode, exit_code
from state.errors import TideoverError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("-c", "--config", metavar="FILE", help="Configuration. Default: $TIDEOVER_CONFIG, else ./tideover.yaml.")
@click.version_option(metadata.version("tideover"), prog_name="tideover")
@click.pass_context
def cli(context: click.Context, config: str | None) -> None:
    """Carry Spark streaming queries from a failed Kafka cluster to its standby, state kept.

    \b
    Exit codes: 0 done, 1 refused by a gate, 2 failed or bad usage, 3 unknown.
    """
    context.obj = World(config=config)
    context.call_on_close(context.obj.close)


for verb in (run, list_queries, show, plan, failover, history, show_operation, offsets, config):
    cli.add_command(verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = cli.main(args=given, prog_name="tideover", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.FAILED
    except click.ClickException as error:
        hint = error.ctx.command_path + " --help" if isinstance(error, click.UsageError) and error.ctx else ""
        print_error("usage", error.format_message(), f"see {hint}" if hint else "", given)
        return ExitCode.FAILED
    except (click.Abort, KeyboardInterrupt):
        print_error("interrupted", "interrupted", "", given)
        return ExitCode.UNKNOWN
    except TideoverError as error:
        print_error(error.kind, str(error), error.hint, given)
        return exit_code(error)
    return int(result or ExitCode.DONE)
