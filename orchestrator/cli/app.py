"""The parser's root, and the edge where errors become exit codes."""

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click

from orchestrator.cli.context import Context
from orchestrator.cli.interpreter import share_turns
from orchestrator.cli.render import print_error, talk
from orchestrator.errors import ExitCode, OutcomeUnknown, UsageError, exit_code
from orchestrator.shapes.json_shapes import asked_row
from state.errors import TideoverError

VERBS = {
    "accept-cluster": "act.accept_cluster:accept_cluster",
    "ack": "act.ack:ack",
    "cancel": "moves.cancel:cancel",
    "check": "inspect.check:check",
    "clean": "act.clean:clean",
    "config": "serve.config:config",
    "control": "serve.control:control",
    "drill": "moves.drill:drill",
    "failback": "moves.failback:failback",
    "failover": "moves.failover:failover",
    "forget": "act.forget:forget",
    "history": "inspect.history:history",
    "list": "inspect.list:list_queries",
    "offsets": "inspect.offsets:offsets",
    "pause": "act.pause:pause",
    "plan": "moves.plan:plan",
    "reconcile": "act.reconcile:reconcile",
    "resume": "act.resume:resume",
    "rewind": "moves.rewind:rewind",
    "run": "serve.run:run",
    "schedule": "moves.schedule:schedule",
    "show": "inspect.show:show",
    "show-op": "inspect.show_op:show_operation",
    "store": "serve.store:store",
    "switchover": "moves.switchover:switchover",
    "timeline": "inspect.timeline:timeline",
    "verify-op": "inspect.verify_op:verify_operation",
    "watch": "inspect.watch:watch",
}
"""Each verb's module, and its name there."""


class Verbs(click.Group):
    """The verbs, each imported when it is typed: whoever looks need not wait for what moves queries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, name = VERBS.get(cmd_name, "").partition(":")
        verb: click.Command | None = getattr(import_module(f"orchestrator.cli.{module}"), name) if module else None
        return verb


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "-c", "--config", metavar="FILE", help="Configuration file. Default: $TIDEOVER_CONFIG, else ./tideover.yaml."
)
@click.version_option(package_name="tideover", prog_name="tideover")
@click.pass_context
def cli(context: click.Context, config: str | None) -> None:
    """Move Spark streaming queries from a failed Kafka cluster to its standby, with their state.

    \b
    Exit codes: 0 done, 1 refused by a gate, 2 failed or bad usage, 3 unknown;
    run and control: 78 if the configuration has mistakes.
    """
    context.obj = Context(config=config)
    context.call_on_close(context.obj.close)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code. Nothing escapes: an uncaught error would read as exit 1, refused."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    share_turns()
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
        print_error("system", f"the operating system reports: {error}", "", given)
        return ExitCode.FAILED
    except (
        SystemExit
    ) as ended:  # the parser ends the process when it has completed a word, or its help goes to a closed pipe
        return ExitCode.FAILED if ended.code else ExitCode.DONE
    except Exception as error:  # noqa: BLE001 # the outermost edge: a defect must not look like a refusal
        talk(traceback.format_exc())
        print_error(
            "defect",
            f"{type(error).__name__}: {error}",
            "this is a bug in Tideover: report it with the trace above. An operation that has begun stays open; "
            "run the same command again to continue it",
            given,
        )
        return ExitCode.FAILED
    return int(result or ExitCode.DONE)


def _check_text(given: Sequence[str]) -> None:
    """Arguments that are not text in the terminal's encoding could not be stored or printed later."""
    for argument in given:
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise UsageError(
                f"{argument!r} is not valid UTF-8 text", hint="type it again, or set the terminal to UTF-8"
            )
