"""The command line: `run`, `soak`, `list`; exit 0 as expected, 1 not, 2 nothing could be shown."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from chaos.docker import Environment, images, versions
from chaos.errors import ChaosError, DockerFailed, ScenarioFailed, StaleImage
from chaos.play import WaitLimits
from chaos.report import PlayedScenario, as_json, joined, played_of, result_of
from chaos.scenarios import SCENARIOS, SECURED, Scenario, expected_of, named
from chaos.soak import SMALLER, draw_soak
from chaos.stage import PROJECT, Stage
from reports.errors import ReportsError
from reports.origin import Origin, origin, unchanged
from reports.result import write

ROOT = Path(__file__).resolve().parents[1]
_BUILD_SECONDS = 1800.0
_MOST_UNSTRUCK = 2
"""After this many scenarios in a row that did not come as far as their fault, the rest is not tried."""
_SCENARIOS = "stories.json"
"""Every scenario with all that was seen; ``report.json`` and its page are made of it."""
_CLUSTERS = {
    False: "in plain text",
    True: "secured: certificates on the primary, SCRAM passwords on the standby, ACLs on both",
}
BUILT = ("spark-master", "link")
"""One service of each of our images: the one that says how it is built."""
OURS = ("TIDEOVER_IMAGE", "TIDEOVER_LAB_IMAGE")
OUR_USER = "10001"
OWN = "tideover-own-pipelines"
"""What is built by the recipe of conf/own-image, on the image of this commit."""
_OWN_LOOK = (
    "import os; from streaming.spark.query.pipeline import load_pipeline;"
    "print(os.getuid(), load_pipeline('pipelines.orders:sizes').__name__)"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    chosen = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return run(chosen)
    except (ChaosError, ReportsError) as error:
        _say(str(error))
        if error.hint:
            _say(error.hint)
        return 2


def _run(chosen: argparse.Namespace) -> int:
    scenarios = [each for name in chosen.scenario if (each := named(name))]
    keep = bool(scenarios) or chosen.missing
    return _play_all(chosen, scenarios or SCENARIOS, keep=keep, missing=chosen.missing)


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


def _play_all(chosen: argparse.Namespace, scenarios: Sequence[Scenario], *, keep: bool, missing: bool = False) -> int:
    """Play them; ``keep`` leaves in the report what was played before, ``missing`` plays only what was not."""
    on = origin(ROOT, draft=chosen.draft or None)
    folder = Path(chosen.dir).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    env_file = _env_file(chosen)
    before, left = _read(folder / _SCENARIOS, on) if keep else ([], [])
    if missing:
        over = {each["name"] for each in before}
        scenarios = [each for each in scenarios if each.name not in over]
        if not scenarios:
            _say(f"every scenario has been played on {on.commit}")
            return 0 if all(each["expected"] for each in before) else 1
    ours = _look(folder, env_file, on, build=not chosen.no_build)
    files = (SECURED,) if chosen.secured else ()
    stage = Stage(root=ROOT, folder=folder, env_file=env_file, files=files, say=_say, patience=WaitLimits())
    surroundings = _surroundings(chosen, env_file, ours, on)
    all_played: list[PlayedScenario] = []
    names = [each.name for each in scenarios]
    with closing(stage.play(scenarios)) as played:
        for scenario, outcome in played:
            secured = SECURED in (*files, *scenario.files)
            played_one = played_of(scenario, outcome, {**surroundings, "clusters": _CLUSTERS[secured]})
            unchanged(on, ROOT)
            all_played.append(played_one)
            _say(f"{scenario.name}: {'; '.join(played_one['problems']) or 'ended as expected'}")
            over = {each["name"] for each in all_played}
            unplayed = [each for each in dict.fromkeys((*left, *names)) if each not in over]
            _write(
                folder, joined(before, all_played), unplayed, on
            )  # should the next one not be played, the report says so
            if len(all_played) >= _MOST_UNSTRUCK and not any(
                each["struck_at"] for each in all_played[-_MOST_UNSTRUCK:]
            ):
                raise ScenarioFailed(f"the environment did not come up for {_MOST_UNSTRUCK} scenarios in a row")
    _say(f"report: {folder / 'report.md'}")
    return 0 if all(each["expected"] for each in joined(before if missing else (), all_played)) else 1


def _read(path: Path, on: Origin) -> tuple[list[PlayedScenario], list[str]]:
    """The test runs of the report that is there, and what was not played; none where there is no such report."""
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
        all_played: list[PlayedScenario] = list(answer["scenarios"])
        unplayed: list[str] = list(answer.get("unplayed", ()))
        result_of(
            "", all_played, unplayed, on
        )  # found out now, and not when an hour of scenarios is to be written beside them
    except FileNotFoundError:
        return [], []
    except (ValueError, KeyError, TypeError) as error:
        hint = "move it away, or give another --dir"
        raise ChaosError(f"{path} is not a report, or is one of an older version", hint=hint) from error
    return all_played, unplayed


def _write(folder: Path, all_played: Sequence[PlayedScenario], unplayed: Sequence[str], on: Origin) -> None:
    reported = as_json(all_played, unplayed)
    (folder / _SCENARIOS).write_text(json.dumps(reported, indent=2, default=str) + "\n", encoding="utf-8")
    write(result_of(folder.name, all_played, unplayed, on), folder / "report.json")


def _look(folder: Path, env_file: Path | None, on: Origin, *, build: bool) -> str:
    """Build our images where that is wanted, and say what they are.

    Raises DockerFailed when they are not bare, and StaleImage when they are of another commit.
    """
    with (folder / "build.log").open("w", encoding="utf-8") as log:
        environment = Environment(ROOT, project=PROJECT, files=(), env_file=env_file, log=log)
        if build:
            _build(environment, env_file, on)
        used, reported = _images(env_file), []
        for variable in OURS:
            _refuse_stale(environment, used[variable], on)
            user, version, rest = environment.contents(used[variable])
            if user != OUR_USER or rest:
                raise DockerFailed(f"{used[variable]} runs as user {user}, and holds of its build: {', '.join(rest)}")
            reported.append(
                f"{used[variable]} is {version}, of commit {on.commit}, as user {user}, with nothing of its build"
            )
            _say(reported[-1])
        if build:
            reported.append(_try_recipe(environment, used))
            _say(reported[-1])
    return "; ".join(reported)


def _try_recipe(environment: Environment, used: Mapping[str, str]) -> str:
    """Build the image with pipelines of one's own as docs/deployment.md says, and load the pipeline in it."""
    given = {name: used[name] for name in ("BASE_IMAGE", "TIDEOVER_IMAGE")}
    environment.build("conf/own-image", OWN, given, timeout=_BUILD_SECONDS)
    reported = environment.printed(OWN, "python", "-c", _OWN_LOOK)
    if reported != f"{OUR_USER} sizes":
        raise DockerFailed(
            f"{OWN}, made by conf/own-image, does not load its pipeline as user {OUR_USER}: {reported!r}"
        )
    return f"{OWN}, made by conf/own-image, loads its pipeline as user {OUR_USER}"


def _refuse_stale(environment: Environment, image: str, on: Origin) -> None:
    """An image that was made from another commit would be played under the name of this one."""
    found = environment.revision(image)
    if found != labelled(on):
        raise StaleImage(
            f"{image} was made from {found or 'a commit it does not name'}, and the report would say {labelled(on)}",
            hint="leave out --no-build, and the images are made from this commit",
        )


def labelled(on: Origin) -> str:
    """What the images of this commit are labelled with; files that differ are no commit."""
    return on.revision + ("+changes" if on.changed else "")


def _build(environment: Environment, env_file: Path | None, on: Origin) -> None:
    _say("building the images")
    try:
        environment.compose("build", "--build-arg", f"REVISION={labelled(on)}", *BUILT, timeout=_BUILD_SECONDS)
    except DockerFailed as error:
        hint = error.hint if env_file else "no image registry in reach? conf/images/make makes equivalent images"
        raise DockerFailed(str(error), hint=hint) from error


def _images(env_file: Path | None) -> dict[str, str]:
    given = env_file.read_text(encoding="utf-8") if env_file and env_file.exists() else ""
    return images((ROOT / "docker-compose.yml").read_text(encoding="utf-8"), given, os.environ)


def _surroundings(chosen: argparse.Namespace, env_file: Path | None, ours: str, on: Origin) -> dict[str, str]:
    return {
        "begun": on.made,
        "command": chosen.command_line,
        "commit": on.commit,
        "machine": on.machine,
        "containers": versions(),
        "images": ", ".join(sorted(_images(env_file).values())),
        "our images": ours,
        "slow link": "a delaying proxy (lab.tcp_proxy), which holds chunks back; no tc netem is needed",
    }


def _env_file(chosen: argparse.Namespace) -> Path | None:
    """The images to use: as named, else those that were made here, else the official ones."""
    if chosen.env_file:
        return Path(chosen.env_file).resolve()
    made = ROOT / "build" / "images.env"
    return made if made.exists() else None


def command_of(words: Sequence[str]) -> str:
    """The command as it is worth repeating: where it wrote to says nothing elsewhere."""
    kept = list(words)
    if "--dir" in kept:
        at = kept.index("--dir")
        del kept[at : at + 2]
    return " ".join(["python -m chaos", *kept])


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Faults in the compose environment.")
    parser.set_defaults(command_line=command_of(sys.argv[1:]), missing=False)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--dir", default="build/chaos", help="reports and logs go here")
    common.add_argument("--env-file", help="names the images; default: build/images.env, if it was made")
    common.add_argument("--secured", action="store_true", help="clusters with certificates, passwords and ACLs")
    common.add_argument(
        "--no-build", action="store_true", help="use the images as they are; they must be of this commit"
    )
    common.add_argument("--draft", action="store_true", help="play files that differ from the commit, for no report")
    run = verbs.add_parser("run", parents=[common], help="play scenarios; those that move nothing share an environment")
    names = [*(each.name for each in SCENARIOS), []]
    run.add_argument("scenario", nargs="*", choices=names, help="default: all; else the others stay in the report")
    run.add_argument("--missing", action="store_true", help="play only scenarios that are not in the report yet")
    run.set_defaults(run=_run)
    soak = verbs.add_parser("soak", parents=[common], help="random faults in one environment, then a failover")
    soak.add_argument("--minutes", type=float, default=30.0)
    soak.add_argument("--seed", type=int, default=1)
    soak.set_defaults(run=_soak)
    verbs.add_parser("list", help="the scenarios").set_defaults(run=_list)
    return parser
