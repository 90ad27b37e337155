"""Bringing a world up, taking it down, and reporting its state.

`up` is safe to repeat: what runs is left alone, what is missing is started on the data that it had. A world whose first
`up` never ended is removed and built again, since nothing can have relied on it yet.
"""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab import cluster, configuration, mirror, topics
from lab.errors import NoWorld, Refused
from lab.java import Say
from lab.mirror import heartbeats, offset_syncs
from lab.world import CLUSTERS, PRIMARY, REPLICATOR, STANDBY, TOPIC, Options, Place, World

GRACE_SECONDS = 4.0
_OF_A_SOURCE = ("READ", "DESCRIBE_CONFIGS")


def up(directory: Path, options: Options, say: Say) -> World:
    """Bring a world up until its replicator replicates; Refused when another kind of world lies there.

    When something does not start, everything is ended again before the error is raised.
    """
    world = _standing(directory, options, say)
    world.adopt()
    frozen = [part for part in world.parts() if world.look(part) == "frozen"]
    if frozen:
        raise Refused(f"{', '.join(frozen)} is frozen", hint="thaw it, or take the world down first")
    missing = [part for part in world.parts() if world.look(part) != "running"]
    if world.phase == "up" and not missing:
        say("the world is up already")
        return world
    try:
        _raise(world, missing, say)
    except BaseException:  # also when the operator interrupts: no process is left behind
        world.end(world.parts(), grace_seconds=0)
        if world.phase == "up":
            world.enter("down")
        raise
    return world


def down(directory: Path, say: Say, *, grace_seconds: float = GRACE_SECONDS) -> None:
    """End every process of a world; its data stays, with no grace as a crash leaves it. Nothing to do is fine."""
    try:
        world = World.load(directory)
    except NoWorld:
        say("there is no world to take down")
        return
    say("taking the world down")
    # The replicator first: it writes down how far it got, and needs its clusters for that.
    world.end([REPLICATOR], grace_seconds)
    world.end([part for part in world.parts() if part != REPLICATOR], grace_seconds)
    if world.phase == "up":
        world.enter("down")


def status(world: World) -> dict[str, Any]:
    """Return what runs, for people and programs."""
    return {
        "phase": world.phase,
        "options": asdict(world.options),
        "configuration": str(world.configuration),
        "clusters": {cluster: {"bootstrap": world.bootstrap(cluster)} for cluster in CLUSTERS},
        "parts": [
            {"name": part, "state": world.look(part), "pid": process.pid if process else None,
             "log": str(world.log(part))}
            for part in world.parts()
            for process in (world.started.get(part),)
        ],
    }  # fmt: skip


def start_parts(world: World, parts: list[str], say: Say) -> None:
    """Start processes on the data they had, and wait until they serve."""
    brokers = [part for part in parts if part != REPLICATOR]
    if brokers:
        cluster.start(world, brokers, say)
    if REPLICATOR in parts:
        mirror.start(world, say)


def _standing(directory: Path, options: Options, say: Say) -> World:
    try:
        world = World.load(directory)
    except NoWorld:
        world = World(directory=directory, options=options)
        world.save()
        return world
    if world.phase == "rising":
        say("removing what an earlier start left unfinished")
        world.end(world.parts(), grace_seconds=0)
        for folder in (*world.parts(), "acked", "sinks", "secrets"):
            shutil.rmtree(directory / folder, ignore_errors=True)
        world = World(directory=directory, options=options)
        world.save()
    elif world.options != options:
        raise Refused(
            f"the world in {directory} was made with other options: {asdict(world.options)}",
            hint="use another directory, or take it down and remove it",
        )
    return world


def _raise(world: World, missing: list[str], say: Say) -> None:
    first_time = world.phase == "rising"
    brokers = [part for part in missing if part != REPLICATOR]
    if brokers:
        say(f"starting Kafka {world.options.kafka}: {', '.join(brokers)}")
        start_parts(world, brokers, say)
    if first_time:
        make_topic(world, TOPIC, world.options.partitions)
        permit(world, TOPIC)
    if REPLICATOR in missing:
        say("starting MirrorMaker 2")
        start_parts(world, [REPLICATOR], say)
    mirror.await_replicating(world, TOPIC)
    world.acked.mkdir(exist_ok=True)
    (world.directory / "sinks").mkdir(exist_ok=True)
    configuration.write(world)
    world.enter("up")
    say(f"the world is up: {world.configuration}")


def make_topic(world: Place, topic: str, partitions: int) -> None:
    """Make a topic on both clusters; on the standby foreign records come first, another count in each partition.

    Offsets of the two clusters then never agree by chance.
    """
    if topics.create(world.bootstrap(STANDBY), topic, partitions, world.replicas(STANDBY)):
        topics.put_foreign(world.bootstrap(STANDBY), topic, lambda partition: 37 + 13 * partition, aged=True)
    topics.create(world.bootstrap(PRIMARY), topic, partitions, world.replicas(PRIMARY))


def permit(world: Place, topic: str) -> None:
    """Where the clusters are secured, let Tideover read a topic of both."""
    for here, source in ((PRIMARY, STANDBY), (STANDBY, PRIMARY)):
        if access := world.access_to(here):
            replicators = dict.fromkeys((heartbeats(source), offset_syncs(source)), ("READ",))
            access.permit(world.bootstrap(here), {topic: _OF_A_SOURCE, **replicators})
