"""A query that is wrong after a move, before a person's eyes: ``make demo WRONG=1``.

The query counts orders, and drops records whose partition and offset it has seen. East has deleted old records, so that
its offsets are higher than those of west, and new records on west have offsets that the query has seen. The failover is
refused, with the number of records that would be dropped. A person insists, and the judge counts what is lost. Beside
it the same query with ``home_offsets: true`` is moved without a word, and loses nothing.

The exit code is 0 when it happened so, 1 when not, 2 when the run broke or was ended.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import topics
from lab.configuration import changing
from lab.demo import free_ports, played
from lab.interrupt import handle_signals
from lab.scenario import Script, open_world
from lab.stage import GRACE_SECONDS, Say, ScenarioFailed, Stage, await_running, stage

TOPIC = "parcels"
WRONG, RIGHT = "once", "once-at-home"
_OLD_RECORDS = 100
"""Of each partition on east, deleted before the replicator runs. These are fewer than the query reads there, so that
the offsets of its next records on west are among those that it has seen."""
_RATE = 200
_CALM_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What happened."""

    gate: Mapping[str, Any]
    """``offset-in-logic`` of the query that is refused."""
    refused: int
    """Exit code of its failover without a consent."""
    insisted: int
    """Exit code with it."""
    verdict: Mapping[str, Mapping[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print; the exit code is the verdict."""
    parser = argparse.ArgumentParser(prog="python -m lab.wrong", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dir", default="build/wrong", help="everything goes here; emptied first")
    parser.add_argument("--base-port", type=int, help="first of 20 ports; default: 19092, or 20 that are free")
    options = parser.parse_args(arguments)
    directory = Path(options.dir)

    def act(say: Say) -> int:
        outcome = play(directory, free_ports(options, say), say)
        problems = judge(outcome)
        print("\n" + "\n".join(page(outcome, problems)))
        return 1 if problems else 0

    return played(directory, act)


def play(directory: Path, base_port: int, say: Say) -> Outcome:
    """From an empty directory to the verdict. Raises StoryFailed."""
    with stage(directory, say) as on:
        open_world(on, Script(base_port=base_port))
        east = _declare(on)
        say(f"topic {TOPIC}: east had {_OLD_RECORDS:,} records more in each partition, and has deleted them")
        _make_topic(on, east)
        runner = on.start_runner()
        await_running(on, runner, warm=True)
        say(f"{_RATE} records/s to east")
        traffic = _traffic(on, "east", _CALM_SECONDS + 120)
        await_running(on, runner, batches=2)
        time.sleep(_CALM_SECONDS)
        say(f"tideover check {WRONG}")
        gate = _gate(on, WRONG)
        say(f"  {gate['text']}")
        say("kill east")
        on.lab("kill", "east")
        on.stop(traffic)
        say(f"tideover failover {WRONG} --to west --yes")
        refused, _ = on.tideover("failover", WRONG, "--to", "west", "--yes", "-o", "json", check=False)
        say(f"  exit code {refused}")
        moves = {name: _moved(on, name) for name in (RIGHT, WRONG)}
        if moves[RIGHT]:
            raise ScenarioFailed(f"tideover failover {RIGHT} ended with exit code {moves[RIGHT]}: see commands.log")
        after = _traffic(on, "west", _CALM_SECONDS)
        after.wait(_CALM_SECONDS + GRACE_SECONDS)
        verdict = json.loads(on.lab("verify", "--wait", "60", "-o", "json"))
        on.stop(runner)
        return Outcome(gate=gate, refused=refused, insisted=moves[WRONG], verdict=verdict)


def _declare(on: Stage) -> Sequence[str]:
    """Two queries that differ in one setting; the address of east."""
    with changing(on.config) as declared:
        base = declared["queries"]["latest"]
        queries = {}
        for name, more in ((WRONG, {}), (RIGHT, {"home_offsets": True})):
            kept = {key: base[key] for key in ("clusters", "runners", "sink")}
            queries[name] = {
                **kept,
                "pipeline": "examples.orders:orders_once",
                "sources": {"orders": {"topics": [TOPIC]}},
                "settings": {"sink": str(on.world / "sinks" / f"{name}.db")},
                "checkpoint": str(on.world / "checkpoints" / name),
                **more,
            }
        declared["queries"] = queries
    bootstrap: Sequence[str] = declared["clusters"]["east"]["bootstrap"]
    return bootstrap


def _make_topic(on: Stage, east: Sequence[str]) -> None:
    """The replicator sees of the topic only what is not deleted."""
    on.lab("kill", "replicator")
    on.lab("topics", "--config", str(on.config), "--topic", TOPIC)
    topics.put_foreign(east, TOPIC, lambda _: _OLD_RECORDS, aged=True)
    topics.delete_all(east, TOPIC)
    on.lab("start", "replicator")


def _traffic(on: Stage, cluster: str, seconds: float) -> Any:
    return on.start(
        f"traffic-{cluster}", "lab", "traffic", "--dir", str(on.world), "--to", cluster, "--topic", TOPIC,
        "--rate", str(_RATE), "--seconds", str(seconds),
    )  # fmt: skip


def _gate(on: Stage, query: str) -> Mapping[str, Any]:
    code, printed = on.tideover("check", query, "-o", "json", check=False)
    if code not in {0, 1, 3}:
        raise ScenarioFailed(f"tideover check ended with exit code {code}: see commands.log")
    (row,) = json.loads(printed)
    found: Mapping[str, Any] = next(gate for gate in row["gates"] if gate["name"] == "offset-in-logic")
    return found


def _moved(on: Stage, query: str) -> int:
    consent = ("--consent", "columns") if query == WRONG else ()
    on.say(" ".join(("tideover failover", query, "--to west --yes", *consent)))
    code, _ = on.tideover("failover", query, "--to", "west", "--yes", "-o", "json", *consent, check=False)
    return code


def judge(outcome: Outcome) -> list[str]:
    """What did not happen as it was said, in sentences."""
    problems = [] if not outcome.gate["ok"] else [f"check lets {WRONG} pass"]
    problems += [] if outcome.refused == 1 else [f"the failover of {WRONG} ended with exit code {outcome.refused}"]
    problems += [] if outcome.insisted == 0 else [f"with the consent it ended with exit code {outcome.insisted}"]
    wrong, right = outcome.verdict[WRONG], outcome.verdict[RIGHT]
    problems += [] if wrong["lost"] else [f"{WRONG} lost nothing, so the example shows nothing"]
    if right["lost"] or right["duplicated"]:
        problems.append(f"{RIGHT} lost {right['lost']}, repeated {right['duplicated']}")
    return problems


def page(outcome: Outcome, problems: Sequence[str]) -> list[str]:
    """The end, for a person."""
    lines = [f"{'query':<16}{'acked':>9}{'delivered':>11}{'lost':>8}{'repeated':>10}"]
    lines += [
        f"{name:<16}{row['acked']:>9,}{row['delivered']:>11,}{row['lost']:>8,}{row['duplicated']:>10,}"
        for name, row in outcome.verdict.items()
    ]
    kept = f"{WRONG} was refused, and lost records when a person insisted; {RIGHT} lost 0, repeated 0"
    return [*lines, "", "verdict: " + ("; ".join(problems) if problems else kept)]


if __name__ == "__main__":
    handle_signals()
    sys.exit(main())
