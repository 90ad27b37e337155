"""The command line: `run`, `soak`, `list`; exit 0 as expected, 1 not, 2 nothing could be shown."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from chaos.docker import Environment, images, versions
from chaos.errors import ChaosError, DockerFailed, StoryFailed
from chaos.report import Story, as_json, joined, page, story_of
from chaos.scenarios import SCENARIOS, SECURED, Scenario, expected_of, named
from chaos.soak import SMALLER, draw_soak
from chaos.stage import PROJECT, Stage
from chaos.story import Patience

ROOT = Path(__file__).resolve().parents[1]
_BUILD_SECONDS = 1800.0
_MOST_UNSTRUCK = 2
"""After so many scenarios in a row that did not come as far as their fault, the rest is not tried."""
_REPORT = "report.json"
_CLUSTERS = {
    False: "in plain text",
    True: "secured: certificates on the primary, SCRAM passwords on the standby, ACLs on both",
}
BUILT = ("spark-master", "link")
"""One service of each of our images: the one that says how it is built."""
OURS = ("TIDEOVER_IMAGE", "TIDEOVER_LAB_IMAGE")
OUR_USER = "10001"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    chosen = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return run(chosen)
    except ChaosError as error:
        _say(str(error))
        if error.hint:
            _say(error.hint)
        return 2


def _run(chosen: argparse.Namespace) -> int:
    scenarios = [each for name in chosen.scenario if (each := named(name))]
    return _play_all(chosen, scenarios or SCENARIOS, keep=bool(scenarios))


def _soak(chosen: argparse.Namespace) -> int:
    try:
        scenario = draw_soak(chosen.minutes, chosen.seed)
    except ValueError as error:
        raise ChaosError(str(error)) from error
    return _play_all(chosen, [scenario], keep=True)


def _list(_: argparse.Namespace) -> int:
    for scenario in (*SCENARIOS, *SMALLER):
        print(f"{scenario.name:<27}{scenario.title}{' (in a soak alone)' if scenario in SMALLER else ''}")
        for step in scenario.steps:
            print(f"{'':<27}  {step}")
        print(f"{'':<27}  expected: {'; '.join(expected_of(scenario))}")
    return 0


def _play_all(chosen: argparse.Namespace, scenarios: Sequence[Scenario], *, keep: bool) -> int:
    """Play them; ``keep`` leaves in the report what was played before and is not played now."""
    folder = Path(chosen.dir).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    env_file = _env_file(chosen)
    before, missing = _read(folder / _REPORT) if keep else ([], [])
    ours = _look(folder, env_file, build=not chosen.no_build)
    files = (SECURED,) if chosen.secured else ()
    stage = Stage(root=ROOT, folder=folder, env_file=env_file, files=files, say=_say, patience=Patience())
    surroundings = _surroundings(chosen, env_file, ours)
    stories: list[Story] = []
    names = [each.name for each in scenarios]
    with closing(stage.play(scenarios)) as played:
        for scenario, outcome in played:
            secured = SECURED in (*files, *scenario.files)
            story = story_of(scenario, outcome, {**surroundings, "clusters": _CLUSTERS[secured]})
            stories.append(story)
            _say(f"{scenario.name}: {'; '.join(story['problems']) or 'ended as expected'}")
            over = {each["name"] for each in stories}
            unplayed = [each for each in dict.fromkeys((*missing, *names)) if each not in over]
            _write(folder, joined(before, stories), unplayed)  # should the next one not be played, the report says so
            if len(stories) >= _MOST_UNSTRUCK and not any(each["struck_at"] for each in stories[-_MOST_UNSTRUCK:]):
                raise StoryFailed(f"the environment did not come up for {_MOST_UNSTRUCK} scenarios in a row")
    _say(f"report: {folder / 'report.md'}")
    return 0 if all(each["expected"] for each in stories) else 1


def _read(path: Path) -> tuple[list[Story], list[str]]:
    """The stories of the report that is there, and what was not played; none where there is no such report."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        stories: list[Story] = list(told["scenarios"])
        unplayed: list[str] = list(told.get("unplayed", ()))
        page(stories, unplayed)  # found out now, and not when an hour of scenarios is to be written beside them
    except FileNotFoundError:
        return [], []
    except (ValueError, KeyError, TypeError) as error:
        hint = "move it away, or give another --dir"
        raise ChaosError(f"{path} is no report, or one of an older version", hint=hint) from error
    return stories, unplayed


def _write(folder: Path, stories: Sequence[Story], unplayed: Sequence[str]) -> None:
    told = as_json(stories, unplayed)
    (folder / _REPORT).write_text(json.dumps(told, indent=2, default=str) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(page(stories, unplayed), encoding="utf-8")


def _look(folder: Path, env_file: Path | None, *, build: bool) -> str:
    """Build our images where that is wanted, and say what they are. Raises DockerFailed when they are not bare."""
    with (folder / "build.log").open("w", encoding="utf-8") as log:
        environment = Environment(ROOT, project=PROJECT, files=(), env_file=env_file, log=log)
        if build:
            _build(environment, env_file)
        used, told = _images(env_file), []
        for variable in OURS:
            user, version, rest = environment.contents(used[variable])
            if user != OUR_USER or rest:
                raise DockerFailed(f"{used[variable]} runs as user {user}, and holds of its build: {', '.join(rest)}")
            told.append(f"{used[variable]} is {version}, as user {user}, with nothing of its build")
            _say(told[-1])
    return "; ".join(told)


def _build(environment: Environment, env_file: Path | None) -> None:
    _say("building the images")
    try:
        environment.compose("build", *BUILT, timeout=_BUILD_SECONDS)
    except DockerFailed as error:
        hint = error.hint if env_file else "no image registry in reach? conf/images/make makes equivalent images"
        raise DockerFailed(str(error), hint=hint) from error


def _images(env_file: Path | None) -> dict[str, str]:
    given = env_file.read_text(encoding="utf-8") if env_file and env_file.exists() else ""
    return images((ROOT / "docker-compose.yml").read_text(encoding="utf-8"), given, os.environ)


def _surroundings(chosen: argparse.Namespace, env_file: Path | None, ours: str) -> dict[str, str]:
    return {
        "begun": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command": chosen.command_line,
        "commit": _commit(),
        "machine": f"{os.cpu_count()} cores",
        "containers": versions(),
        "images": ", ".join(sorted(_images(env_file).values())),
        "our images": ours,
        "slow link": "a delaying proxy (lab.relay), which holds chunks back; no tc netem is needed",
    }


def _env_file(chosen: argparse.Namespace) -> Path | None:
    """The images to use: as asked, else those that were made here, else the official ones."""
    if chosen.env_file:
        return Path(chosen.env_file).resolve()
    made = ROOT / "build" / "images.env"
    return made if made.exists() else None


def _commit() -> str:
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "unknown"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Faults in the compose environment.")
    parser.set_defaults(command_line=" ".join(["python -m chaos", *sys.argv[1:]]))
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", default="build/chaos", help="reports and logs go here")
    common.add_argument("--env-file", help="names the images; default: build/images.env, if it was made")
    common.add_argument("--secured", action="store_true", help="clusters with certificates, passwords and ACLs")
    common.add_argument("--no-build", action="store_true", help="use the images as they are")
    run = verbs.add_parser("run", parents=[common], help="play scenarios; those that move nothing share an environment")
    names = [*(each.name for each in SCENARIOS), []]
    run.add_argument("scenario", nargs="*", choices=names, help="default: all; else the others stay in the report")
    run.set_defaults(run=_run)
    soak = verbs.add_parser("soak", parents=[common], help="random faults in one environment, then a failover")
    soak.add_argument("--minutes", type=float, default=30.0)
    soak.add_argument("--seed", type=int, default=1)
    soak.set_defaults(run=_soak)
    verbs.add_parser("list", help="the scenarios").set_defaults(run=_list)
    return parser
