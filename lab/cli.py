"""The lab's command line: data to stdout, talk to stderr; exit 0 done, 1 refused, 2 failed or bad usage."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lab import life
from lab.errors import LabError
from lab.faults import FAULTS
from lab.world import KAFKA_VERSIONS, Options, World, hold
from state.errors import TideoverError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    chosen = _parser().parse_args(arguments)
    chosen.dir = Path(chosen.dir).resolve()
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return run(chosen)
    except TideoverError as error:
        if getattr(chosen, "output", None) == "json":
            told = {"error": {"kind": error.kind, "text": str(error), "hint": error.hint}}
            sys.stdout.write(json.dumps(told) + "\n")
        say(str(error))
        if error.hint:
            say(error.hint)
        return error.exit_code if isinstance(error, LabError) else 2
    except KeyboardInterrupt:
        say("interrupted")
        return 2


def say(text: str) -> None:
    """Tell the operator something."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _up(chosen: argparse.Namespace) -> int:
    options = Options(
        kafka=chosen.kafka, brokers=chosen.brokers, base_port=chosen.base_port, partitions=chosen.partitions
    )
    with hold(chosen.dir):
        life.up(chosen.dir, options, say)
    return 0


def _down(chosen: argparse.Namespace) -> int:
    if not chosen.dir.exists():
        say("there is no world to take down")
        return 0
    with hold(chosen.dir):
        life.down(chosen.dir, say)
    return 0


def _status(chosen: argparse.Namespace) -> int:
    told = life.status(World.load(chosen.dir))
    if chosen.output == "json":
        print(json.dumps(told))
        return 0
    print(f"{told['phase']}: Kafka {told['options']['kafka']}, {told['configuration']}")
    for cluster, about in told["clusters"].items():
        print(f"  {cluster:<12}{','.join(about['bootstrap'])}")
    for part in told["parts"]:
        print(f"  {part['name']:<12}{part['state']:<9}{part['pid'] or '-':>8}  {part['log']}")
    return 0


def _fault(chosen: argparse.Namespace) -> int:
    World.load(chosen.dir)  # says so when there is none, before a lock file is made
    with hold(chosen.dir):
        FAULTS[chosen.verb](World.load(chosen.dir), chosen.name, say)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description="Two Kafka clusters, a replicator, and faults.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", required=True, help="everything that the world consists of lies here")
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument("-o", "--output", choices=("table", "json"), default="table")

    up = verbs.add_parser("up", parents=[common], help="bring the world up; what runs already is left alone")
    up.add_argument("--kafka", choices=KAFKA_VERSIONS, default=KAFKA_VERSIONS[0])
    up.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="per cluster")
    up.add_argument("--base-port", type=int, default=19092, help="first of 20 ports")
    up.add_argument("--partitions", type=int, default=4, help="of the topic orders")
    up.set_defaults(run=_up)
    verbs.add_parser("down", parents=[common], help="end its processes; data stays").set_defaults(run=_down)
    verbs.add_parser("status", parents=[common, output], help="what runs").set_defaults(run=_status)
    for verb, text in {
        "kill": "SIGKILL", "freeze": "SIGSTOP", "thaw": "SIGCONT", "start": "start what is gone, on its data"
    }.items():  # fmt: skip
        fault = verbs.add_parser(verb, parents=[common], help=text)
        fault.add_argument("name", help="east, west, replicator, or one broker: east-2")
        fault.set_defaults(run=_fault)
    return parser
