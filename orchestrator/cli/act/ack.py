"""``ack``: say that you have seen what automatic failover did to a query."""

import click

from orchestrator.cli import context, render
from orchestrator.cli.act.pause import AGAIN
from orchestrator.cli.context import Context, pass_context, this_person, unknown_if_lost
from orchestrator.cli.selection import labels, select
from orchestrator.decide.desk.status import Label
from orchestrator.decide.gates.automatic import cooldown_text
from orchestrator.errors import ExitCode, Refused
from orchestrator.facts.status import cooldowns_of
from orchestrator.operation import pauses
from orchestrator.shapes import query_shapes

ACK_COLUMNS = ("query", "operation", "actor", "reason", "at")


@click.command()
@click.argument("queries", nargs=-1, metavar="[QUERY]...", shell_complete=context.complete_query)
@click.option("--all", "every", is_flag=True, help="Every declared query that is in cool-down.")
@labels
@context.reason
@context.output
@pass_context
def ack(
    ctx: Context, queries: tuple[str, ...], every: bool, labels: tuple[Label, ...], reason: str, output: str
) -> int:
    """Confirm that you have seen what automatic failover did to queries. This ends their cool-down.

    Automatic failover of the queries may act again from now on: at once if the cluster that they are on is down.
    Several queries: one that is still moving is left out and named (exit 1); the others are acknowledged.

    \b
    Examples:
      tideover ack revenue --reason "looked at it, west is fine"
      tideover ack --all --reason "east is repaired"
      tideover ack --label team=billing
    """
    names = select(ctx, queries, every=every, labels=labels)
    before = cooldowns_of(ctx.store, ctx.settings)
    given, refused = [], []
    for query in names:
        try:
            with unknown_if_lost("the acknowledgement", hint=AGAIN):
                one = pauses.acknowledge(ctx.store, ctx.settings, query, actor=this_person(), reason=reason)
        except Refused as error:
            if len(names) == 1:
                raise
            refused.append(str(error))
            continue
        if one is not None:
            given.append(one)
            if query in before:
                render.talk(f"cool-down ended: {cooldown_text(before[query], query)}")
        elif not (every or labels):
            render.talk(f"{query} is not in cool-down, nothing to acknowledge: nothing done")
    if not given and (every or labels):
        render.talk(f"none of {len(names)} queries is in cool-down, nothing to acknowledge: nothing done")
    for text in refused:
        render.talk(text)
    if given or output in {"json", "yaml"}:
        render.show([query_shapes.acknowledgement_row(each) for each in given], output, columns=ACK_COLUMNS)
    return ExitCode.REFUSED if refused else ExitCode.DONE
