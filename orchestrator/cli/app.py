"""The parser's root, and the edge where errors become exit codes."""

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click

from orchestrator.cli.context import Context, did_you_mean
from orchestrator.cli.interpreter import share_turns
from orchestrator.cli.render import print_error, talk
from orchestrator.errors import ExitCode, OutcomeUnknown, UsageError, exit_code
from orchestrator.shapes.request_shapes import request_identity
from state.errors import TideoverError

GROUPS = {
    "Look": {
        "list": "inspect.list:list_queries",
        "show": "inspect.show:show",
        "check": "inspect.check:check",
        "watch": "inspect.watch:watch",
        "history": "inspect.history:history",
        "show-op": "inspect.show_op:show_operation",
        "show-group": "inspect.show_group:show_group",
        "timeline": "inspect.timeline:timeline",
        "offsets": "inspect.offsets:offsets",
        "verify-op": "inspect.verify_op:verify_operation",
    },
    "Move": {
        "plan": "moves.plan:plan",
        "failover": "moves.failover:failover",
        "switchover": "moves.switchover:switchover",
        "failback": "moves.failback:failback",
        "rewind": "moves.rewind:rewind",
        "drill": "moves.drill:drill",
        "schedule": "moves.schedule:schedule",
        "cancel": "moves.cancel:cancel",
    },
    "Automatic failover": {
        "pause": "act.pause:pause",
        "resume": "act.resume:resume",
        "ack": "act.ack:ack",
    },
    "Repair and tidy": {
        "accept-cluster": "act.accept_cluster:accept_cluster",
        "reconcile": "act.reconcile:reconcile",
        "clean": "act.clean:clean",
        "take-over": "act.take_over:take_over",
        "forget": "act.forget:forget",
        "adopt": "act.adopt:adopt",
        "release": "act.release:release",
    },
    "Set up and run": {
        "init": "serve.init:init",
        "inventory": "serve.inventory:inventory",
        "config": "serve.config:config",
        "store": "serve.store:store",
        "run": "serve.run:run",
        "submit": "serve.submit:submit",
        "jar": "serve.jar_location:jar",
        "attend": "serve.attend:attend",
        "control": "serve.control:control",
    },
}
"""Each verb's module, and its name there, in the order in which ``--help`` lists them."""

_UNCUT = 1_000
"""Letters of a verb's first sentence: click cuts it at 45 otherwise."""

_MEANT = {"status": "watch"}
_TYPED = {"--dry-run": "tideover plan {verb} shows what it would do", "--cluster": "--expect-active CLUSTER names it"}
"""Options that other programs have, and what does the same on a verb that moves queries."""

VERBS = {verb: place for group in GROUPS.values() for verb, place in group.items()}


class Verbs(click.Group):
    """The verbs, each imported when it is typed: a verb that looks need not wait for what moves queries."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _, name = VERBS.get(cmd_name, "").partition(":")
        verb: click.Command | None = getattr(import_module(f"orchestrator.cli.{module}"), name) if module else None
        return verb

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not args[0].startswith("-"):
            near = f"; did you mean {_MEANT[args[0]]!r}?" if args[0] in _MEANT else did_you_mean(args[0], VERBS)
            ctx.fail(f"there is no verb {args[0]!r}{near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, VERBS))
        for title, group in GROUPS.items():
            verbs = [(name, self.get_command(ctx, name)) for name in group]
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:{widest}}", verb.get_short_help_str(limit=_UNCUT)) for name, verb in verbs if verb]
                )


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
        print_error("usage", error.format_message(), _hint(error), given)
        return ExitCode.FAILED
    except (click.Abort, KeyboardInterrupt):
        print_error("interrupted", "interrupted", "", given)
        return ExitCode.UNKNOWN
    except OutcomeUnknown as error:
        print_error(
            error.kind, str(error), error.hint, given, [request_identity(request) for request in error.requested]
        )
        return exit_code(error)
    except TideoverError as error:
        print_error(error.kind, str(error), error.hint, given)
        return exit_code(error)
    except OSError as error:
        print_error("system", f"the operating system reports: {error}", "", given)
        try:
            sys.stdout.flush()
        except OSError:
            sys.stdout = None  # the interpreter would write it again at its end, and exit with 120
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


def _hint(error: click.ClickException) -> str:
    """What to type instead, else where to read."""
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return ""
    verb = error.ctx.info_name or ""
    if isinstance(error, click.NoSuchOption) and verb in GROUPS["Move"] and error.option_name in _TYPED:
        return _TYPED[error.option_name].format(verb=verb)
    if isinstance(error, click.MissingParameter) and verb in {"show-op", "show-group"}:
        return "tideover show QUERY lists the last operations; tideover history those of all queries"
    return f"see {error.ctx.command_path} --help"


def _check_text(given: Sequence[str]) -> None:
    """Arguments that are not text in the terminal's encoding could not be stored or printed later."""
    for argument in given:
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise UsageError(
                f"{argument!r} is not valid UTF-8 text", hint="type it again, or set the terminal to UTF-8"
            )
