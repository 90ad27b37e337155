"""The lab's command line: data to stdout, talk to stderr; exit 0 done, 1 refused, 2 failed or bad usage."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from lab import archive, credentials, ledger, lifecycle, topics, traffic, turn
from lab.access import KINDS
from lab.errors import ERROR, ClusterSilent, LabError, NoSink
from lab.external_clusters import ExternalClusters
from lab.faults import FAULTS
from lab.judge import QueryVerdict
from lab.load_profile import Shape
from lab.verify import Home, Verifier
from lab.world import CLUSTERS, ISOLATIONS, KAFKA_VERSIONS, PRIMARY, SECURED, STANDBY, TOPIC, Options, World, hold
from state.errors import TideoverError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    chosen = _parser().parse_args(arguments)
    if "dir" in chosen:
        chosen.dir = Path(chosen.dir).resolve()
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return run(chosen)
    except TideoverError as error:
        if getattr(chosen, "output", None) == "json":
            reported = {"error": {"kind": error.kind, "text": str(error), "hint": error.hint}}
            sys.stdout.write(json.dumps(reported) + "\n")
        say(ERROR + str(error))
        if error.hint:
            say(error.hint)
        return error.exit_code if isinstance(error, LabError) else 2
    except KeyboardInterrupt:
        say("interrupted")
        return 2


def say(text: str) -> None:
    """Print a line for the operator."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _up(chosen: argparse.Namespace) -> int:
    options = Options(
        kafka=chosen.kafka,
        brokers=chosen.brokers,
        base_port=chosen.base_port,
        partitions=chosen.partitions,
        secured=chosen.secured,
        isolation=chosen.isolation,
    )
    with hold(chosen.dir):
        lifecycle.up(chosen.dir, options, say)
    return 0


def _down(chosen: argparse.Namespace) -> int:
    if not chosen.dir.exists():
        say("there is no world to take down")
        return 0
    with hold(chosen.dir):
        lifecycle.down(chosen.dir, say, grace_seconds=0.0 if chosen.now else lifecycle.GRACE_SECONDS)
    return 0


def _archive(_: argparse.Namespace) -> int:
    for path in archive.make(say):
        print(f"{path.stat().st_size / 1e6:7.0f} MB  {path}")
    return 0


def _status(chosen: argparse.Namespace) -> int:
    reported = lifecycle.status(World.load(chosen.dir))
    if chosen.output == "json":
        print(json.dumps(reported))
        return 0
    print(f"{reported['phase']}: Kafka {reported['options']['kafka']}, {reported['configuration']}")
    for cluster, about in reported["clusters"].items():
        print(f"  {cluster:<12}{','.join(about['bootstrap'])}")
    for part in reported["parts"]:
        print(f"  {part['name']:<12}{part['state']:<9}{part['pid'] or '-':>8}  {part['log']}")
    return 0


def _fault(chosen: argparse.Namespace) -> int:
    World.load(chosen.dir)  # says so when there is none, before a lock file is made
    with hold(chosen.dir):
        done_at = FAULTS[chosen.verb](World.load(chosen.dir), chosen.name, say)
        print(done_at.isoformat(timespec="milliseconds"))  # for who measures from that moment on
    return 0


def _turn(chosen: argparse.Namespace) -> int:
    place = _place(chosen)
    if isinstance(place, ExternalClusters):
        turn.prepare(place, chosen.source, say)
        return 0
    with hold(chosen.dir):
        turn.turn(World.load(chosen.dir), say)
    return 0


def _topics(chosen: argparse.Namespace) -> int:
    external = ExternalClusters(chosen.dir, Path(chosen.config).resolve())
    external.acked.mkdir(parents=True, exist_ok=True)
    lifecycle.make_topic(external, chosen.topic, chosen.partitions)
    lifecycle.permit(external, chosen.topic)
    say(f"{chosen.topic} is on {' and '.join(CLUSTERS)}")
    return 0


def _secrets(chosen: argparse.Namespace) -> int:
    wanted = credentials.parse(chosen.cluster)
    credentials.make(chosen.dir, wanted)
    say(f"credentials of {' and '.join(wanted)} are in {chosen.dir / credentials.FOLDER}")
    return 0


def _traffic(chosen: argparse.Namespace) -> int:
    world = _place(chosen)
    stop = traffic.stop_on_signals()
    partitions = _partitions(world, chosen)
    world.acked.mkdir(exist_ok=True)
    run = ledger.take_run(world.acked)
    try:
        shape = Shape(
            rate=chosen.rate, seconds=chosen.seconds, partitions=partitions, first_id=run * ledger.IDS_PER_RUN,
            seed=run if chosen.seed is None else chosen.seed, uneven=chosen.uneven, idle=chosen.idle_partitions,
            burst=chosen.burst, same_payload=chosen.same_payload,
        )  # fmt: skip
    except ValueError as error:
        raise LabError(str(error)) from error
    if shape.total > ledger.IDS_PER_RUN:
        raise LabError(f"{shape.total:,} records are more than the {ledger.IDS_PER_RUN:,} ids of one run")
    say(f"run {run}: {shape.rate:,}/s to {chosen.topic} on {chosen.to} for {shape.seconds:g} s, seed {shape.seed}")
    with ledger.Ledger(world.acked, chosen.topic, run, chosen.to) as noted:
        tally = traffic.Sender(world.bootstrap(chosen.to), chosen.topic, shape, noted).run(stop)
    reported = {"run": run, "topic": chosen.topic, "cluster": chosen.to, **asdict(tally)}
    print(
        json.dumps(reported)
        if chosen.output == "json"
        else ", ".join(f"{key} {value}" for key, value in reported.items())
    )
    return 0


def _verify(chosen: argparse.Namespace) -> int:
    place = _place(chosen)
    configuration = Path(chosen.config).resolve() if chosen.config else place.configuration
    home = Home.read(chosen.on, chosen.tail) if chosen.on else None
    verifier = Verifier(place, configuration, say, only=chosen.query, home=home)
    if chosen.load:
        print(json.dumps(verifier.counts()))
        return 0
    if not chosen.every:
        _print_verdicts(chosen, verifier.verdicts(chosen.wait))
        return 0
    while True:
        try:
            _print_verdicts(chosen, verifier.verdicts(chosen.wait))
        except (ClusterSilent, NoSink) as error:  # both may pass
            say(str(error))
        time.sleep(chosen.every)


def _print_verdicts(chosen: argparse.Namespace, verdicts: Mapping[str, QueryVerdict]) -> None:
    reported = {name: asdict(verdict) for name, verdict in verdicts.items()}
    if chosen.output == "json":
        print(json.dumps(reported))
    else:
        columns = [column for column in reported[next(iter(reported))] if column != "judged"]
        print(f"{'query':<16}" + "".join(f"{column:>13}" for column in columns) + "  judged")
        for name, row in reported.items():
            cells = ("-" if row[column] is None else f"{row[column]:,}" for column in columns)
            print(f"{name:<16}" + "".join(f"{cell:>13}" for cell in cells) + f"  {row['judged']}")
    sys.stdout.flush()


def _place(chosen: argparse.Namespace) -> World | ExternalClusters:
    """The world of this directory; where there is none, clusters that others run, as the configuration names them."""
    if chosen.config and not (chosen.dir / "world.json").exists():
        return ExternalClusters(chosen.dir, Path(chosen.config).resolve())
    return World.load(chosen.dir)


def _partitions(world: World | ExternalClusters, chosen: argparse.Namespace) -> int:
    """Print how many partitions the topic has, making it on both clusters if it is new."""
    if isinstance(world, ExternalClusters):
        return world.partitions(chosen.topic, chosen.to)
    if chosen.topic == TOPIC:  # known without a look-up: traffic may start while its cluster is dead
        return world.options.partitions
    count = topics.partition_count(world.bootstrap(chosen.to), chosen.topic)
    if not count:
        count = world.options.partitions
        lifecycle.make_topic(world, chosen.topic, count)
        lifecycle.permit(world, chosen.topic)
    return count


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description="Two Kafka clusters, a replicator, and faults.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", required=True, help="folder of the world")
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument("-o", "--output", choices=("table", "json"), default="table")

    up = verbs.add_parser("up", parents=[common], help="start the world; what already runs is left alone")
    up.add_argument("--kafka", choices=KAFKA_VERSIONS, default=KAFKA_VERSIONS[0])
    up.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="per cluster")
    up.add_argument("--base-port", type=int, default=19092, help="first of 20 ports")
    up.add_argument("--partitions", type=int, default=4, help="of the topic orders")
    up.add_argument("--secured", choices=SECURED, help="certificates or passwords, and ACLs; one kind or east,west")
    up.add_argument("--isolation", choices=ISOLATIONS, default=ISOLATIONS[0], help="isolation.level of the replicator")
    up.set_defaults(run=_up)
    down = verbs.add_parser("down", parents=[common], help="stop its processes; data stays")
    down.add_argument("--now", action="store_true", help="kill them instead: for a world that is not needed again")
    down.set_defaults(run=_down)
    verbs.add_parser("status", parents=[common, output], help="what runs").set_defaults(run=_status)
    for verb, text in {
        "kill": "SIGKILL", "freeze": "SIGSTOP", "thaw": "SIGCONT", "start": "start a killed part again, with its data"
    }.items():  # fmt: skip
        fault = verbs.add_parser(verb, parents=[common], help=text)
        fault.add_argument("name", help="east, west, replicator, or one broker: east-2")
        fault.set_defaults(run=_fault)
    turned = verbs.add_parser(
        "turn", parents=[common], help="reverse replication, behind the last record that both clusters have"
    )
    turned.add_argument(
        "--config",
        help="for containers: a file that names the clusters east and west; stop their MirrorMaker first, and start it "
        "after this command. Clusters of yours: tideover-replication reverse",
    )
    turned.add_argument(
        "--from", dest="source", choices=CLUSTERS, default=STANDBY, help="with --config: what it copies"
    )
    turned.set_defaults(run=_turn)
    kept = verbs.add_parser("archive", help="a trial run, a minute or two: everything that starts later starts sooner")
    kept.set_defaults(run=_archive)
    _add_verify(verbs.add_parser("verify", parents=[common, output], help="print what was lost or repeated, per query"))
    made = verbs.add_parser("topics", parents=[common], help="make a topic on clusters that others run")
    made.add_argument("--config", required=True, help="a configuration of Tideover's that names the clusters")
    made.add_argument("--topic", default=TOPIC)
    made.add_argument("--partitions", type=int, default=4)
    made.set_defaults(run=_topics)
    sealed = verbs.add_parser("secrets", parents=[common], help="make credentials for clusters in containers")
    sealed.add_argument("cluster", nargs="+", metavar="CLUSTER=KIND:HOST,...", help=f"kinds: {', '.join(KINDS)}")
    sealed.set_defaults(run=_secrets)
    _add_traffic(
        verbs.add_parser("traffic", parents=[common, output], help="send orders and note what is acknowledged")
    )
    return parser


def _add_verify(verify: argparse.ArgumentParser) -> None:
    verify.add_argument(
        "--config", help="whose queries, and whose clusters where DIR is no world; default: the world's tideover.yaml"
    )
    verify.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="at most, until sinks have caught up with the standby",
    )
    verify.add_argument("--every", type=float, metavar="SECONDS", help="repeat it until stopped")
    verify.add_argument("--query", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    verify.add_argument("--on", choices=CLUSTERS, help="the cluster that holds everything, after a way home")
    verify.add_argument(
        "--tail", action="append", default=[], type=Path, metavar="FILE", help="with --on: what show-op --tail reported"
    )
    verify.add_argument("--load", action="store_true", help="only how much was acknowledged and delivered, as JSON")
    verify.set_defaults(run=_verify)


def _add_traffic(send: argparse.ArgumentParser) -> None:
    send.add_argument("--rate", type=int, default=1000, help="records per second")
    send.add_argument("--seconds", type=float, default=10.0)
    send.add_argument("--config", help="whose clusters, where DIR is no world")
    send.add_argument("--to", choices=CLUSTERS, default=PRIMARY)
    send.add_argument("--topic", default=TOPIC, help="made on both clusters if it is new")
    send.add_argument("--uneven", action="store_true", help="each partition gets half of what the one before gets")
    send.add_argument("--idle-partitions", type=int, default=0, metavar="N", help="the last N partitions get nothing")
    send.add_argument("--burst", action="store_true", help="many records with one timestamp, twice a second")
    send.add_argument("--same-payload", action="store_true", help="records differ by their id alone")
    send.add_argument("--seed", type=int, help="of the choice of keys and amounts; default: the run's number")
    send.set_defaults(run=_traffic)
