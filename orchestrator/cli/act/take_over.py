"""``take-over``: confirm that the process which has the name of a runner or an application has ended."""

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, confirm, did_you_mean, pass_context, require_person, this_person
from orchestrator.decide.times import iso
from orchestrator.errors import ExitCode, Refused, UnknownName, UsageError
from streaming.process import own_identity

_COLUMNS = ("name", "host", "pid", "seen_at")


@click.command("take-over")
@click.argument("name")
@context.reason
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@context.output
@pass_context
def take_over(ctx: Context, name: str, reason: str, yes: bool, output: str) -> int:
    """Confirm that the process of a runner or an application has ended, where its host cannot be checked any more.

    NAME is a key of runners in the configuration. Another host may start under this name after that. A process that
    only seems to have ended continues its batches, and the records of these batches come twice. So look first: the
    host is off, or the pod or the YARN application has ended. --reason is required, and history keeps it. Refused
    (exit 1) while the process reports, or while it runs on this host. No process has the name: exit 0, nothing done.

    \b
    Examples:
      tideover take-over a --reason "host one was switched off"
      tideover take-over shop --reason "its node burned" --yes
    """
    if name not in ctx.settings.runners:
        known = sorted(ctx.settings.runners)
        raise UnknownName(
            f"{name!r} is neither a runner nor an application{did_you_mean(name, known)}",
            hint=f"the configuration declares {', '.join(known) or 'none'}",
        )
    if not reason:
        raise UsageError("a take-over needs --reason", hint="how do you know that the process has ended?")
    other = next((fact for fact in ctx.store.runners() if fact.runner == name), None)
    if other is None:
        render.talk(f"no process has the name {name}: nothing done")
        return ExitCode.DONE
    if not yes:
        require_person(hint="it needs --yes where no person can confirm")
        confirm(f"Has pid {other.pid} on {other.host} ended, and will it not come back?")
    from streaming.spark.errors import NameTaken  # imported when needed: what follows loads Spark
    from streaming.spark.runner.registration import NameTakeover, clear_name

    try:
        clear_name(ctx.store, name, own_identity(), NameTakeover(actor=this_person(), reason=reason))
    except NameTaken as taken:
        raise Refused(str(taken), hint="end that process first") from None
    row = {"name": name, "host": other.host, "pid": other.pid, "seen_at": iso(other.seen_at)}
    if output in {"json", "yaml"}:
        render.document(row, output)
    else:
        render.show([row], output, columns=_COLUMNS)
    return ExitCode.DONE
