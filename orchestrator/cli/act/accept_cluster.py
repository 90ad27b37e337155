"""``accept-cluster``: let another Kafka cluster have a name."""

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import World, pass_world
from orchestrator.cli.prompts import ask_yes, require_person, this_person, unknown_if_lost
from orchestrator.errors import ExitCode
from orchestrator.operation.accept_cluster import accept, successor_of

_COLUMNS = ("cluster", "id", "former", "left_behind")


@click.command(name="accept-cluster")
@click.argument("cluster", shell_complete=context.complete_cluster)
@context.reason
@click.option("--yes", is_flag=True, help="Do not ask.")
@context.output
@pass_world
def accept_cluster(world: World, cluster: str, reason: str, yes: bool, output: str) -> int:
    """Say that a cluster was replaced on purpose: what answers under its name now has the name.

    Until then nothing runs on it and nothing is moved to it or from it (gate cluster-identity). Queries that stand
    on the former cluster are not run on the new one, where their offsets mean other records: fail them over; they may
    come back by another failover. Refused by a setting clusters.NAME.id that says otherwise (exit 1); not possible
    while a query moves there or from there (exit 2). The cluster is who it was: exit 0, nothing done.

    \b
    Examples:
      tideover accept-cluster east
      tideover accept-cluster east --yes --reason "rebuilt after the fire"
    """
    world.known_cluster(cluster)
    store = world.store  # first: what is pinned there, the link must know
    found = successor_of(store, world.settings, world.log(cluster), cluster)
    if found is None:
        render.talk(f"{cluster} is the cluster that it was: nothing done")
        return ExitCode.DONE
    left = [
        f"{query} stands in cluster {found.pin.id}: afterwards, tideover failover {query}" for query in found.queries
    ]
    for line in left:
        render.talk(line)
    if not yes:
        require_person(hint="see first: tideover check --all")
        ask_yes(f"{cluster} was cluster {found.pin.id}. Is it cluster {found.id} from now on?")
    with unknown_if_lost(f"the new id of {cluster}", hint="the same command again does no harm"):
        accept(store, found, actor=this_person(), reason=reason)
    row = {"cluster": cluster, "id": found.id, "former": found.pin.id, "left_behind": list(found.queries)}
    render.show([row], output, columns=_COLUMNS)
    return ExitCode.DONE
