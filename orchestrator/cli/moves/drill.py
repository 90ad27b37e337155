"""``drill``: rehearse a failover on the live standby, without touching production."""

from collections.abc import Sequence
from datetime import timedelta

import click

from orchestrator.cli import context, render, tables
from orchestrator.cli.context import Context, pass_context, this_person
from orchestrator.cli.moves.move import aims_of, carry_out, check_led, flags_of
from orchestrator.cli.moves.options import CONSENTS, How, Which
from orchestrator.cli.operation_text import drill_text
from orchestrator.cli.selection import labels
from orchestrator.decide.operation.drill import RECORDS
from orchestrator.new_requests import RequestSpec
from orchestrator.operation.wait import Answered
from state.model.entities import OperationKind

_GO_ON = "tideover show QUERY shows how the drill ended; tideover cancel ID ends it"
_ACCEPTED = [name for name in CONSENTS if name not in {"unfenced", "replication"}]
"""A drill fences nothing, and reads no replicator."""


@click.command()
@click.argument("queries", nargs=-1, metavar="[QUERY]...", shell_complete=context.complete_query)
@click.option("--all", "every", is_flag=True, help="Every declared query, one after the other.")
@labels
@click.option(
    "--to",
    metavar="CLUSTER",
    shell_complete=context.complete_cluster,
    help="Standby to rehearse on. Default: the next in the query's clusters.",
)
@click.option(
    "--consent",
    "consents",
    type=click.Choice(_ACCEPTED),
    multiple=True,
    help="Let a gate pass that would need this consent in a failover. May be repeated.",
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the drill has ended.")
@click.option(
    "--timeout",
    type=context.Seconds(1, 86_400),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait. A drill that has begun by then continues; none begins later.",
)
@context.reason
@context.output
@context.gathered("how", How)
@context.gathered("which", Which)
@pass_context
def drill(ctx: Context, which: Which, how: How, to: str | None) -> int:
    """Rehearse a failover of queries on their standby. Production runs on and is not touched.

    Checks the gates, finds the resume offsets and copies the checkpoint aside. Starts the query on the standby with its
    sink replaced by one that keeps nothing, and commits one batch of limited size. Compares what was read with the
    forecast, and deletes the copy. Nothing is held, fenced or written, so it needs no confirmation. A move of the
    query ends its drill at once. Exit 0: proven; 1: a gate refuses, or it was stopped by a move or by tideover cancel;
    2: it failed.

    \b
    Examples:
      tideover drill revenue
      tideover drill revenue --to west -o json
      tideover drill --all --reason "before the weekend"
    """  # fmt: skip
    flags = flags_of(ctx, OperationKind.DRILL, which, to=to, reason=how.reason)
    aims = aims_of(ctx, flags, group=bool(which.group))
    check_led(ctx, wait=how.wait)
    for aim in aims:
        render.talk(
            f"drill of {aim.query} on {aim.target}: one batch of at most {RECORDS} records a source, from a copy of "
            "its checkpoint, without its sink; the query runs on"
        )
    spec = RequestSpec(
        kind=OperationKind.DRILL,
        targets={aim.query: aim.target for aim in aims},
        expect_active={aim.query: aim.active for aim in aims if aim.active},
        actor=this_person(),
        reason=how.reason,
        consents=which.consents,
        runs={},
        within=timedelta(seconds=how.timeout),
    )
    return carry_out(
        ctx,
        spec,
        how,
        many=bool(which.group) or len(aims) > 1,
        what="drills",
        go_on=_GO_ON,
        and_say=lambda answered: _say_measured(answered if how.output in tables.PEOPLE else ()),
    )


def _say_measured(answered: Sequence[Answered]) -> None:
    for request, operation in answered:
        if operation is not None and (reported := drill_text(operation.measured.drill)):
            render.say(f"\n{request.query}\n{reported}")
