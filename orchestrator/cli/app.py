"""The parser's root, and the edge where errors become exit codes."""

import sys
import traceback
from collections.abc import Sequence
from importlib import metadata

import click

from orchestrator.cli.act import failover, plan
from orchestrator.cli.ends import offsets
from orchestrator.cli.live import watch
from orchestrator.cli.look import history, list_queries, show, show_operation
from orchestrator.cli.mend import reconcile
from orchestrator.cli.ready import check
from orchestrator.cli.render import print_error, talk
from orchestrator.cli.serve import control, run
from orchestrator.cli.settings import config
from orchestrator.cli.shapes import asked_row
from orchestrator.cli.steer import ack, pause, resume
from orchestrator.cli.timeline import timeline
from orchestrator.cli.world import World
from orchestrator.errors import ExitCode, OutcomeUnknown, UsageError, exit_code
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


for verb in (
    *(
        run,
        control,
        list_queries,
        show,
        plan,
        failover,
        pause,
        resume,
        ack,
        check,
        history,
        show_operation,
        offsets,
        timeline,
        config,
    ),
    watch,
    reconcile,
):
    cli.add_command(verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code. Nothing escapes: an uncaught error would read as exit 1, refused."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _check_text(given)
        result = cli.main(args=given, prog_name="tideover", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        talk(error.format_message())
        return ExitCode.FAILED
    except click.ClickException as error:
        hint = error.ctx.command_path + " --help" if isinstance(error, click.UsageError) and error.ctx else ""
        print_error("usage", error.format_message(), f"see {hint}" if hint else "", given)
        return ExitCode.FAILED
    except (click.Abort, KeyboardInterrupt):
        print_error("interrupted", "interrupted", "", given)
        return ExitCode.UNKNOWN
    except OutcomeUnknown as error:
        print_error(error.kind, str(error), error.hint, given, [asked_row(request) for request in error.asked])
        return exit_code(error)
    except TideoverError as error:
        print_error(error.kind, str(error), error.hint, given)
        return exit_code(error)
    except OSError as error:
        print_error("system", f"the operating system refused: {error}", "", given)
        return ExitCode.FAILED
    except SystemExit:  # the parser ends the process when nobody reads its help
        return ExitCode.FAILED
    except Exception as error:  # noqa: BLE001 # the outermost edge: a defect must not look like a refusal
        talk(traceback.format_exc())
        print_error(
            "defect",
            f"{type(error).__name__}: {error}",
            "this is a defect of Tideover, and the trace says where; an operation that was under way stays open, "
            "and the same command goes on with it",
            given,
        )
        return ExitCode.FAILED
    return int(result or ExitCode.DONE)


def _check_text(given: Sequence[str]) -> None:
    """Arguments that are not text in the terminal's encoding could not be stored or printed later."""
    for argument in given:
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise UsageError(f"{argument!r} is not text in UTF-8", hint="type it again, or set the terminal to UTF-8")
