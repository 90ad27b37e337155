"""Reverses replication in a lab: its MirrorMaker 2 is stopped, prepared by ``replication_tool``, and started again."""

from contextlib import ExitStack

from lab import lifecycle, mirror
from lab.access import ADMIN
from lab.errors import Refused
from lab.java import Say
from lab.world import CLUSTERS, REPLICATOR, TOPIC, Place, World, other
from replication_tool.producer import Writer
from replication_tool.reverse import Side, reverse
from state.settings.keys import Cluster
from streaming.kafka.link import Link


def turn(world: World, say: Say) -> None:
    """Stop the replicator and start it in the other direction; wait until it copies.

    Raises Refused while a cluster does not run: what both have can only be found on both.
    """
    for cluster in CLUSTERS:
        if not world.may_answer(cluster):
            raise Refused(f"{cluster} does not run", hint=f"python -m lab start {cluster} --dir {world.directory}")
    say(f"stopping MirrorMaker 2, {world.source} to {world.target}")
    world.end([REPLICATOR], lifecycle.GRACE_SECONDS)
    prepare(world, world.target, say)
    world.source = world.target
    world.save()
    say(f"starting MirrorMaker 2, {world.source} to {world.target}")
    lifecycle.start_parts(world, [REPLICATOR], say)
    mirror.await_replicating(world, TOPIC)
    say(f"{world.source} is copied to {world.target}")


def prepare(place: Place, source: str, say: Say) -> None:
    """Write where a replicator that does not run begins to copy from ``source``, which was its target.

    The lab's clusters have foreign records of their own, so a partition with nothing in common is skipped.
    Raises what ``reverse`` does.
    """
    with ExitStack() as open_links:
        begin, end = (_side(open_links, place, cluster) for cluster in (source, other(source)))
        reverse(begin, end, say, where_none="skip")


def _side(links: ExitStack, place: Place, name: str) -> Side:
    access = place.access_to(name)
    security = {} if access is None else {"security": access.product(ADMIN)}
    cluster = Cluster.model_validate({"bootstrap": list(place.bootstrap(name)), **security})
    return Side(name=name, alias=name, log=links.enter_context(Link(cluster, name=name)), writer=Writer(name, cluster))
