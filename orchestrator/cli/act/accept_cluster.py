"""``accept-cluster``: let another Kafka cluster have a name."""

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, ask_yes, pass_context, require_person, this_person, unknown_if_lost
from orchestrator.errors import ExitCode
from orchestrator.operation.accept_cluster import accept, successor_of

_COLUMNS = ("cluster", "id", "former", "left_behind")


@click.command(name="accept-cluster")
@click.argument("cluster", shell_complete=context.complete_cluster)
@context.reason
@click.option("--yes", is_flag=True, help="Do not ask.")
@context.output
@pass_context
def accept_cluster(ctx: Context, cluster: str, reason: str, yes: bool, output: str) -> int:
    """Confirm that a cluster was replaced on purpose: the cluster that answers under this name now is the right one.

    Until you do, nothing runs on it and no query moves to it or from it (gate cluster-identity). A query that last ran
    on the former cluster does not start on the new one, because its offsets mean other records there: fail it over;
    another failover can bring it back. Refused (exit 1) while clusters.NAME.id in the configuration says otherwise;
    not possible (exit 2) while a query is moving to or from the cluster. The id has not changed: exit 0, nothing done.

    \b
    Examples:
      tideover accept-cluster east
      tideover accept-cluster east --yes --reason "rebuilt after the fire"
    """
    ctx.known_cluster(cluster)
    store = ctx.store  # first: what is pinned there, the link must know
    found = successor_of(store, ctx.settings, ctx.log(cluster), cluster)
    if found is None:
        render.talk(f"the id of {cluster} has not changed: nothing done")
        return ExitCode.DONE
    left = [
        f"{query} last ran on the former cluster {found.pin.id}; after this, type tideover failover {query}"
        for query in found.queries
    ]
    for line in left:
        render.talk(line)
    if not yes:
        require_person(hint="to see what it affects first: tideover check")
        ask_yes(f"{cluster} was the cluster with id {found.pin.id}. Accept the one with id {found.id} in its place?")
    with unknown_if_lost(f"the new id of {cluster}", hint="run the command again: it is safe to repeat"):
        accept(store, found, actor=this_person(), reason=reason)
    row = {"cluster": cluster, "id": found.id, "former": found.pin.id, "left_behind": list(found.queries)}
    render.show([row], output, columns=_COLUMNS)
    return ExitCode.DONE
