"""`tideover-replication`: exit code 0 done, 1 refused and nothing was written, 2 failed or bad usage."""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from orchestrator.config.load import load
from replication_tool.errors import Refused
from replication_tool.producer import Writer
from replication_tool.reverse import Side, WhereNone, reverse
from replication_tool.tail import InDoubt, records_of
from state.errors import TideoverError
from state.settings.keys import Cluster
from streaming.kafka.link import Link

_EXAMPLES = """\
examples:
  stop MirrorMaker 2, then copy from west to east from now on:
    tideover-replication reverse -c tideover.yaml --from west --to east --dry-run
    tideover-replication reverse -c tideover.yaml --from west --to east
  write the records that only east had into a topic of west:
    tideover show-op ID --tail -o json > tail.json
    tideover-replication replay-tail -c tideover.yaml --to west --topic orders_tail tail.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    chosen = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return run(chosen)
    except TideoverError as error:
        _say(str(error))
        if error.hint:
            _say(error.hint)
        return 1 if isinstance(error, Refused) else 2
    except KeyboardInterrupt:
        _say("interrupted")
        return 2


def _reverse(chosen: argparse.Namespace) -> int:
    if chosen.source == chosen.target:
        raise Refused(f"--from and --to are both {chosen.source}: name the two clusters")
    with ExitStack() as open_links:
        source, target = (
            _side(open_links, name, alias or name, _cluster(chosen.config, name))
            for name, alias in ((chosen.source, chosen.from_alias), (chosen.target, chosen.to_alias))
        )
        reverse(source, target, _say, only=chosen.topic, where_none=chosen.where_none, dry_run=chosen.dry_run)
    return 0


def _replay_tail(chosen: argparse.Namespace) -> int:
    records = records_of(chosen.file, chosen.topic, unread=chosen.unread, in_doubt=chosen.in_doubt)
    writer = Writer(chosen.target, _cluster(chosen.config, chosen.target))
    if not writer.has(chosen.topic):
        raise Refused(f"{chosen.target} has no topic {chosen.topic}", hint="create it first; nothing was written")
    written = writer.write(records)
    print(f"{written} of {len(records)} records written to {chosen.topic}")  # noqa: T201 - the result
    return 0


def _side(links: ExitStack, name: str, alias: str, cluster: Cluster) -> Side:
    log = links.enter_context(Link(cluster, name=name))
    return Side(name=name, alias=alias, log=log, writer=Writer(name, cluster))


def _cluster(config: str | None, name: str) -> Cluster:
    clusters = load(config).settings.clusters
    if name not in clusters:
        raise Refused(f"the configuration has no cluster {name}", hint=f"its clusters: {', '.join(sorted(clusters))}")
    return clusters[name]


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tideover-replication", epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="What Tideover never does: write to Kafka, when queries are to go back to the primary.",
    )  # fmt: skip
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-c", "--config", metavar="FILE", help="Tideover's configuration, which names the clusters")
    turned = verbs.add_parser(
        "reverse", parents=[common],
        help="reverse MirrorMaker 2 behind the last record that both clusters have; stop MirrorMaker first",
    )  # fmt: skip
    turned.add_argument("--from", dest="source", required=True, metavar="CLUSTER", help="copied from now on")
    turned.add_argument("--to", dest="target", required=True, metavar="CLUSTER", help="copied to, the old source")
    turned.add_argument("--topic", action="append", default=[], help="only this one; may be repeated")
    turned.add_argument("--from-alias", metavar="ALIAS", help="MirrorMaker's name of --from; default: the same")
    turned.add_argument("--to-alias", metavar="ALIAS", help="MirrorMaker's name of --to; default: the same")
    turned.add_argument(
        "--where-none", choices=get_args(WhereNone), default="refuse",
        help="a partition of which both have records and none in common: copy all, skip what is there, or refuse",
    )  # fmt: skip
    turned.add_argument("--dry-run", action="store_true", help="print where each partition begins, and write nothing")
    turned.set_defaults(run=_reverse)
    tail = verbs.add_parser(
        "replay-tail", parents=[common], help="write the records that only the old cluster had into a topic",
        description="Left out are records that the standby has got since, and those that were not committed. Key, "
        "value, headers and time are as they were; the partition follows from the key. Run twice, it writes everything "
        "twice: read the topic with a query that knows its records by their ids.",
    )  # fmt: skip
    tail.add_argument("--to", dest="target", required=True, metavar="CLUSTER", help="written to")
    tail.add_argument("--topic", required=True, help="written to; it must exist")
    tail.add_argument("--unread", action="store_true", help="only what the query had not read before it left")
    tail.add_argument(
        "--in-doubt", choices=get_args(InDoubt), default="refuse",
        help="with --unread: what becomes of records that a batch under way may have handed to the sink",
    )  # fmt: skip
    tail.add_argument("file", type=Path, help="what tideover show-op ID --tail -o json printed")
    tail.set_defaults(run=_replay_tail)
    return parser
