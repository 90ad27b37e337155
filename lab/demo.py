"""The main job before a person's eyes: ``make demo``.

Plays one test run and prints it as it happens; ends with a page that a person can read and ``report.json`` for a
program. The exit code is the verdict. It is 0 when the carried queries lost nothing and repeated nothing and the fresh
query's repeats equal its forecast. It is 1 when not, and 2 when the run broke or was ended.
"""

import argparse
import dataclasses
import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark

from lab import ports
from lab.configuration import declaration
from lab.homecoming import Homecoming
from lab.interrupt import handle_signals
from lab.scenario import Played, Script, play_script
from lab.stage import Say, ScenarioFailed, Stage
from lab.world import PORTS, Options
from state.errors import TideoverError
from streaming.jars import jar_paths

KEPT_SECONDS = 8 * 3600.0
KEPT_RATE = 200
_CALM_SECONDS = 4.0
_RATE = 2000
"""Records per second, where the machine keeps up with them."""
NEXT = "python -m lab up --dir build/lab"
"""The command that a person tries where the demo could not run: the two clusters alone."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print, write the report; the exit code is the verdict."""
    options = _parse(arguments)
    directory = Path(options.dir)

    def act(say: Say) -> int:
        def stay(on: Stage, played_run: Played) -> None:
            _publish(played_run, directory)
            if options.keep:
                keep(on, say)

        for jars in (f"kafka-{options.kafka}", f"spark-{pyspark.__version__}"):
            jar_paths(jars, progress=say)
        return 1 if judge(play_script(_script(options, say), directory, say, stay)) else 0

    return played(directory, act)


def played(directory: Path, act: Callable[[Say], int]) -> int:
    """What ``act`` returns, in a folder that is emptied first; 2 with one line where it broke or was ended.

    Each line that it says has the seconds since the begin in front.
    """
    shutil.rmtree(directory, ignore_errors=True)
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True)

    try:
        return act(say)
    except (ScenarioFailed, TideoverError, OSError) as failure:
        print(f"\n{ended(failure, directory)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("the demo was ended, and all that it had started with it", file=sys.stderr)
        return 2


def ended(failure: Exception, directory: Path, subject: str = "the demo") -> str:
    """One line for a person: why it ended early, where the logs are, and the command to try next."""
    why = str(failure).partition("\n")[0].rstrip(" .:;")
    following = getattr(failure, "hint", None) or f"next: {NEXT}"
    return f"{subject} ended early: {why}; logs: {directory}; {following}"


def free_ports(options: argparse.Namespace, say: Say) -> int:
    """The first port of the world: the one that was named, else the usual one or, where that is in use, another."""
    if options.base_port is not None:
        return int(options.base_port)
    usual = Options().base_port
    found = ports.base_port(usual)
    if found != usual:
        say(f"ports from {usual} are in use; the demo uses {found} to {found + PORTS - 1}")
    return found


def _script(options: argparse.Namespace, say: Say) -> Script:
    return Script(
        fault=options.fault, rate=options.rate or _RATE, lowers_rate=options.rate is None,
        base_port=free_ports(options, say), kafka=options.kafka, resume=options.resume, calm_seconds=_CALM_SECONDS,
        automatic=options.auto, returns=options.way_home, shows_desk=True,
    )  # fmt: skip


def _publish(played_run: Played, directory: Path) -> None:
    problems = judge(played_run)
    (directory / "report.json").write_text(json.dumps(_report(played_run, problems), indent=2, default=str) + "\n")
    page = "\n".join(_page(played_run, problems))
    (directory / "summary.txt").write_text(page + "\n")
    print(f"\n{page}\n\nreport: {directory / 'report.json'}", flush=True)


def keep(on: Stage, say: Say, seconds: float = KEPT_SECONDS) -> None:
    """Leave the world up under a light load, until Ctrl-C, SIGTERM, or for so long."""
    http = declaration(on.config)["http"]
    token = (on.world / "desk.token").read_text(encoding="ascii").strip()
    on.start_traffic("west", KEPT_RATE, seconds)
    say(f"all of it stays up, for {seconds / 3600:g} hours at most. Ctrl-C ends it")
    say(f"the page: http://{http['listen']}/ (log in with {token})")
    say(f"the verbs: tideover -c {on.config} list")
    say(f"the primary comes up again by: python -m lab start east --dir {on.world}")
    with suppress(KeyboardInterrupt):
        threading.Event().wait(seconds)
    say("ending it")


def judge(played_run: Played) -> list[str]:
    """What is wrong with the outcome, in sentences; empty when the promise was kept."""
    problems = (
        [] if played_run.failover_exit == 0 else [f"tideover failover ended with exit code {played_run.failover_exit}"]
    )
    moved = {operation["query"]: operation["plan"] for operation in played_run.operations}
    problems += [] if moved else ["no query was moved"]
    problems += [f"{query} was not judged" for query in moved.keys() - played_run.verdict.keys()]
    problems += [f"{query} was not moved" for query in played_run.verdict.keys() - moved.keys()]
    for query in [each for each in played_run.verdict if each in moved]:
        row, plan = played_run.verdict[query], moved[query]
        if not row["delivered"]:
            problems.append(f"{query}: nothing was delivered")
        if row["lost"]:
            problems.append(f"{query}: lost {row['lost']}")
        if plan["resume"] != "fresh" and row["duplicated"]:
            problems.append(f"{query}: repeated {row['duplicated']}")
        if plan["resume"] == "fresh" and row["duplicated"] not in forecasts(played_run.operation(query)):
            problems.append(
                f"{query}: {row['duplicated']} repeated, and the forecast was {_forecast(played_run.operation(query))}"
            )
    return problems + (judge_home(played_run.home) if played_run.home is not None else [])


def judge_home(home: Homecoming) -> list[str]:
    """What is wrong with the way home, in sentences."""
    problems = [] if home.exit == 0 else [f"tideover failback ended with exit code {home.exit}"]
    problems += [] if home.tail["whole"] else ["not every record of the tail could be listed"]
    problems += [
        f"{each['query']}: failback {each['outcome']}: {each['sentence']}"
        for each in home.operations
        if each["outcome"] != "done"
    ]
    for query, row in home.verdict.items():
        if not row["delivered"]:
            problems.append(f"{query} at home: nothing was delivered")
        if row["lost"] or row["duplicated"]:
            problems.append(f"{query} at home: lost {row['lost']}, repeated {row['duplicated']}")
    return problems


def forecasts(operation: Mapping[str, Any]) -> set[int]:
    """The repeats that keep the forecast: without the batch that was in flight, or with it if the sink had it.

    None where the plan does not know: that is no forecast to be kept.
    """
    replay, possible = _repeats(operation)
    return set() if replay is None else {replay, replay + (possible or 0)}


def judged(played_run: Played) -> str:
    """By what each query was judged, in words: queries that were judged alike are named together."""
    ways: dict[str, list[str]] = {}
    for query, row in played_run.verdict.items():
        ways.setdefault(str(row["judged"]), []).append(query)
    return "; ".join(f"{', '.join(queries)} {way}" for way, queries in ways.items())


def _repeats(operation: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Forecast, and possible of the batch that was in flight: as measured where that is known, else as planned."""
    totals, measured = operation["plan"]["totals"], operation["measured"].get("possible_replay_records")
    return totals["replay_records"], totals["possible_replay_records"] if measured is None else measured


def _forecast(operation: Mapping[str, Any]) -> str:
    replay, possible = _repeats(operation)
    in_flight = f" (and {possible:,} more if the sink had the batch in flight)" if possible else ""
    return "unknown" if replay is None else f"{replay:,}{in_flight}"


def _page(played_run: Played, problems: Sequence[str]) -> list[str]:
    columns = f"{'acked':>9}{'replicated':>12}{'delivered':>11}{'exposed':>9}{'lost':>6}{'repeated':>10}"
    lines = [f"{'query':<20}{'resume':<8}{columns}{'switch':>9}{'from fault':>12}"]
    rows = {
        query: row
        for query, row in played_run.verdict.items()
        if any(op["query"] == query for op in played_run.operations)
    }
    for query, row in rows.items():
        operation = played_run.operation(query)
        lines.append(
            f"{query:<20}{operation['plan']['resume']:<8}{_count(row['acked']):>9}{_count(row['replicated']):>12}"
            f"{_count(row['delivered']):>11}{_count(row['exposed']):>9}{_count(row['lost']):>6}"
            f"{_count(row['duplicated']):>10}{_seconds(operation['measured'].get('switch_seconds')):>9}"
            f"{_seconds(played_run.fault_to_first_commit_seconds.get(query)):>12}"
        )
    lines += ["", f"judged: {judged(played_run)}"]
    for query, row in rows.items():
        operation = played_run.operation(query)
        if operation["plan"]["resume"] == "fresh":
            lines += ["", *_fresh(query, operation, row)]
    if played_run.script.automatic:
        lines += ["", *_events(played_run)]
    if played_run.home is not None:
        lines += ["", *_home(played_run.home)]
    lines += ["", "verdict: " + ("; ".join(problems) if problems else _kept(played_run))]
    return lines


def _home(home: Homecoming) -> list[str]:
    columns = f"{'acked':>9}{'delivered':>11}{'lost':>6}{'repeated':>10}{'never read':>12}"
    lines = [f"{len(home.tail['records'])} records were on east alone, listed by tideover show-op ID --tail", ""]
    lines += [f"{'home again':<28}{columns}{'switch':>9}"]
    for operation in home.operations:
        row, unread = home.verdict[operation["query"]], operation["plan"].get("unread_before", [])
        counts = [each["records"] for each in unread]
        never = None if None in counts else sum(counts)
        lines.append(
            f"{operation['query']:<28}{_count(row['acked']):>9}{_count(row['delivered']):>11}{_count(row['lost']):>6}"
            f"{_count(row['duplicated']):>10}{_count(never):>12}"
            f"{_seconds(operation['measured'].get('switch_seconds')):>9}"
        )
    return lines


def _fresh(query: str, operation: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    plan = operation["plan"]
    lines = [f"{query} resumes by time, with a new checkpoint:"]
    lines += [
        f"  {place['topic']}-{place['partition']}: T {place['timestamp_ms']} - buffer {place['buffer_ms']} ms"
        f" -> offset {place['target_offset']} of [{place['begin']}, {place['end']}],"
        f" replay forecast {place['replay_records']}"
        for place in plan["partitions"]
    ]
    lines.append(f"  startingOffsets {json.dumps(plan['starting_offsets'])}")
    lines.append(f"  replay: forecast {_forecast(operation)}, measured {row['duplicated']:,}")
    return lines


def _events(played_run: Played) -> list[str]:
    """What the history says of it, from the fault to the last query that settled, but for the waiting in between."""
    reported = [event for event in played_run.events if not event["text"].startswith(("ordering", "waiting"))]
    return ["what happened, from tideover history:"] + [
        f"  {event['at'][11:23]}  {event['kind']:<10}{event['query'] or '':<10}{event['text']}"
        for event in sorted(reported, key=lambda event: event["at"])
    ]


def _kept(played_run: Played) -> str:
    carried = [query for query in played_run.verdict if played_run.operation(query)["plan"]["resume"] != "fresh"]
    both = " there and back" if played_run.home is not None else ""
    done = {"carry": "carried", "switch": "switched"}
    ways = " or ".join(sorted({done[played_run.operation(query)["plan"]["resume"]] for query in carried}))
    return f"lost 0, repeated 0 in {len(carried)} {ways} queries{both}; the fresh query repeated what was forecast"


def _report(played_run: Played, problems: Sequence[str]) -> dict[str, Any]:
    return {"kept": not problems, "problems": list(problems), **dataclasses.asdict(played_run)}


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _seconds(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f} s"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fault", choices=("kill", "freeze"), default="kill", help="what happens to the primary")
    parser.add_argument(
        "--resume",
        choices=("auto", "carry", "switch"),
        default="auto",
        help="how queries with an exact position continue",
    )
    parser.add_argument("--auto", action="store_true", help="no command is typed: a controller sees it and acts")
    parser.add_argument("--return", dest="way_home", action="store_true", help="and the way home, under load")
    parser.add_argument("--keep", action="store_true", help="leave the world up at the end, to click in, until Ctrl-C")
    parser.add_argument("--dir", default="build/demo", help="everything that the demo writes goes here; emptied first")
    parser.add_argument("--rate", type=int, help=f"records per second; default: {_RATE:,}, or fewer on a slow machine")
    parser.add_argument("--base-port", type=int, help="first of 20 ports; default: 19092, or 20 that are free")
    parser.add_argument("--kafka", choices=("4.3.1", "3.9.1"), default="4.3.1", help="version of the brokers")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    handle_signals()
    sys.exit(main())
