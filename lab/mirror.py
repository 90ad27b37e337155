"""The replicator: MirrorMaker 2 in its dedicated mode, east to west until it is reversed; topics keep their names.

Heartbeats: MirrorMaker emits into the topic `heartbeats` of *both* clusters, whichever direction is replicated. The
one written on east travels like any record and arrives on west as `east.heartbeats` (the identity policy makes an
exception for heartbeats, else the two would collide). Its age is the replicator's own word that east still answers.
"""

import time
from collections.abc import Mapping, Sequence

from lab import access, java, topics
from lab.errors import ClusterSilent, StartFailed
from lab.java import Say
from lab.processes import tail
from lab.world import CLUSTERS, PRIMARY, REPLICATOR, World, other


def heartbeats(source: str) -> str:
    """The topic on the other cluster in which the heartbeats of ``source`` arrive."""
    return f"{source}.heartbeats"


def offset_syncs(source: str) -> str:
    """The topic on the other cluster in which MirrorMaker notes what it copied where."""
    return f"mm2-offset-syncs.{source}.internal"


_PROBE_SECONDS = 120.0
_POLL_SECONDS = 0.2
_HEAP_MB = 512


def properties(world: World) -> dict[str, object]:
    """Return MirrorMaker's configuration for a world."""
    bootstrap = {cluster: world.bootstrap(cluster) for cluster in CLUSTERS}
    secured = {
        f"{cluster}.{key}": value
        for cluster in CLUSTERS
        if (guarded := world.access_to(cluster))
        for key, value in guarded.java(access.REPLICATOR).items()
    }
    return (
        settings_for(bootstrap, replicas=world.options.brokers, isolation=world.options.isolation, source=world.source)
        | secured
    )


def settings_for(
    bootstrap: Mapping[str, Sequence[str]],
    *,
    replicas: int,
    isolation: str = "read_committed",
    source: str = PRIMARY,
) -> dict[str, object]:
    """Return MirrorMaker's configuration between the primary and the standby at these addresses.

    In one direction only: with names kept, both at once would copy each record round and round.

    ``isolation`` is that of the consumer that reads the primary: MirrorMaker passes on what is behind
    ``<source>.consumer.`` (``MirrorMakerConfig.connectorBaseConfig``, ``MirrorConnectorConfig.sourceConsumerConfig``).
    Its own default, read_uncommitted, copies the records of aborted transactions as ordinary ones.
    """
    settings: dict[str, object] = {"clusters": ",".join(CLUSTERS)}
    settings |= {f"{cluster}.bootstrap.servers": ",".join(bootstrap[cluster]) for cluster in CLUSTERS}
    target = other(source)
    route = f"{source}->{target}"
    settings |= {
        f"{route}.enabled": "true",
        f"{target}->{source}.enabled": "false",
        f"{route}.topics": ".*",
        f"{route}.offset.lag.max": 10,
        f"{source}.consumer.isolation.level": isolation,
        f"{route}.consumer.fetch.max.wait.ms": 50,
        f"{route}.consumer.fetch.min.bytes": 65536,  # not each record alone: fifty milliseconds of them
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "offset-syncs.topic.location": "target",
        "emit.heartbeats.interval.seconds": 1,
        "emit.checkpoints.interval.seconds": 5,
        "refresh.topics.interval.seconds": 2,
        "refresh.groups.interval.seconds": 5,
        "plugin.discovery": "service_load",
        "dedicated.mode.enable.internal.rest": "false",
        "tasks.max": 2,
    }
    for cluster in CLUSTERS:  # the settings of a Connect worker count only under the name of its cluster
        settings |= {
            f"{cluster}.plugin.discovery": "service_load",
            f"{cluster}.offset.flush.interval.ms": 1000,
            f"{cluster}.scheduled.rebalance.max.delay.ms": 0,
            f"{cluster}.producer.linger.ms": 0,
        }
    topics_made = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage",
                   "config.storage")  # fmt: skip
    settings |= {f"{name}.replication.factor": replicas for name in topics_made}
    return settings | {"replication.factor": replicas}


def start(world: World, say: Say) -> None:
    """Start the replicator; it replicates some seconds later."""
    folder = world.folder(REPLICATOR)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mm2.properties"
    path.touch(mode=0o600)  # it may hold a password
    path.write_text("".join(f"{key}={value}\n" for key, value in properties(world).items()), encoding="utf-8")
    classpath = java.classpath(world.options.kafka, say)
    main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
    program = java.command(main_class, str(path), heap_mb=_HEAP_MB, class_path=classpath)
    world.start(REPLICATOR, program, classpath)


def await_replicating(world: World, topic: str) -> None:
    """Put one record into every partition on the source and wait until the target has as many more."""
    before = sum(topics.ends(world.bootstrap(world.target), topic).values())
    probes = topics.put_foreign(world.bootstrap(world.source), topic, lambda _: 1)
    deadline = time.monotonic() + _PROBE_SECONDS
    while time.monotonic() < deadline:
        if world.look(REPLICATOR) != "running":
            break
        try:
            if sum(topics.ends(world.bootstrap(world.target), topic).values()) >= before + probes:
                return
        except ClusterSilent:
            pass
        time.sleep(_POLL_SECONDS)
    log = world.log(REPLICATOR)
    raise StartFailed(f"the replicator did not replicate {topic}; the end of {log}:\n{tail(log)}")
