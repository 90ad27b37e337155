"""What came out: each test run as JSON, and the result that is rendered. Pure.

A test run stays in the report until its scenario is played again, so each says when and on which commit it was played.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from chaos.faults import PRIMARY
from chaos.scenario_outcome import Outcome, announced_repeats, judge
from chaos.scenarios import Scenario
from reports.entries import BY_RECORDS
from reports.origin import Origin
from reports.result import Result, Section

_LEGEND = (
    "DOWN after: from the blow to the primary. Switch: the longest of the queries, from the decision to the first "
    "batch committed on the standby. Lost, repeated, exposed: of the query with most; exposed records were "
    "acknowledged and never came to the standby. In brackets: repeats that the plan had announced."
)

PlayedScenario = Mapping[str, Any]
"""One scenario and what became of it, as JSON has it."""


def played_of(scenario: Scenario, outcome: Outcome, played: Mapping[str, str]) -> PlayedScenario:
    """One test run; ``played`` says when, where and by which command."""
    return {
        "name": scenario.name,
        "title": scenario.title,
        "expected": not (problems := judge(scenario, outcome)),
        "problems": problems,
        "seconds": measured(outcome),
        "announced": max((announced_repeats(outcome.operations, query) for query in outcome.verdict), default=0)
        if scenario.returns
        else None,
        "played": dict(played),
        **dataclasses.asdict(outcome),
    }


def joined(before: Iterable[PlayedScenario], now: Iterable[PlayedScenario]) -> list[PlayedScenario]:
    """The test runs of an earlier report with those that were played now, in the order of the first time.

    One that is played again by its name keeps what had not been as expected before: repeating it hides no failure.
    """
    scenarios = {each["name"]: each for each in before}
    for each in now:
        former = scenarios.get(each["name"])
        scenarios[each["name"]] = {**each, "earlier": _failures(former)} if former else each
    return list(scenarios.values())


def _failures(played_one: PlayedScenario) -> list[dict[str, str]]:
    played = played_one["played"]
    own = {"begun": played["begun"], "commit": played["commit"], "problems": "; ".join(played_one["problems"])}
    return [*played_one.get("earlier", ()), *([own] if played_one["problems"] else [])]


def result_of(name: str, scenarios: Sequence[PlayedScenario], unplayed: Sequence[str], on: Origin) -> Result:
    """The report; scenarios of other commits make it a report of several. ``unplayed``: requested, and not reached."""
    played = [each["played"] for each in scenarios]
    exposed = [row["exposed"] for each in scenarios for row in each["verdict"].values() if "exposed" in row]
    table = Section(
        columns=("Scenario", "Fault", "As expected", "DOWN after", "Switch", "Lost", "Repeated", "Exposed"),
        rows=tuple(map(_row, scenarios)), after=(_LEGEND,),
    )  # fmt: skip
    return Result(
        report=name, title="Chaos in the compose environment",
        command="; ".join(dict.fromkeys(each["command"] for each in played)),
        commits=tuple(dict.fromkeys(each["commit"] for each in played)), made=on.made, machine=on.machine,
        judged=BY_RECORDS, exposed=f"up to {max(exposed):,}" if exposed else "not counted", count=len(scenarios),
        unit="scenarios", wrong=sum(not each["expected"] for each in scenarios), missing=tuple(unplayed),
        sections=(Section(bullets=tuple(_conditions(scenarios))), table, *map(_chapter, scenarios)),
    )  # fmt: skip


def as_json(scenarios: Sequence[PlayedScenario], unplayed: Sequence[str] = ()) -> dict[str, Any]:
    """The whole report; ``unplayed`` names the requested scenarios that were not played."""
    expected = not unplayed and all(each["expected"] for each in scenarios)
    return {"expected": expected, "unplayed": list(unplayed), "scenarios": list(scenarios)}


def measured(outcome: Outcome) -> dict[str, float | None]:
    """From the blow to the primary to its verdict DOWN, and the longest switch of a query, in seconds."""
    downs = (each.seconds for each in outcome.changes if each.cluster == PRIMARY and each.verdict == "DOWN")
    given = [*downs] if outcome.struck_at else []
    down = next((seconds for seconds in given if seconds >= 0), None)
    struck = [deed.begun for deed in outcome.deeds if deed.strikes_primary and down is not None and deed.begun <= down]
    switches = [
        operation["measured"]["switch_seconds"]
        for operation in outcome.operations
        if operation["outcome"] == "done" and operation["measured"].get("switch_seconds") is not None
    ]
    after = None if down is None else round(down - max(struck, default=0.0), 1)
    return {"down": after, "switch": max(switches, default=None)}


def _conditions(scenarios: Iterable[PlayedScenario]) -> Iterator[str]:
    """Under which conditions which test runs were played; conditions that several share are named once."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for each in scenarios:
        groups.setdefault(tuple(each["played"].items()), []).append(each["name"])
    for played, names in groups.items():
        yield "\n".join([f"{', '.join(names)}:", *(f"  - {key}: {value}" for key, value in played)])


def _row(played_one: PlayedScenario) -> tuple[str, ...]:
    seconds, announced = played_one["seconds"], played_one["announced"]
    repeated = _most(played_one, "duplicated") + ("" if announced is None else f" [{announced}]")
    measured = (_seconds(seconds["down"]), _seconds(seconds["switch"]), _most(played_one, "lost"), repeated)
    return (
        played_one["name"],
        played_one["title"],
        "yes" if played_one["expected"] else "no",
        *measured,
        _most(played_one, "exposed"),
    )


def _chapter(played_one: PlayedScenario) -> Section:
    happened = [
        (deed["begun"], f"**{deed['text']}**" + (f": {deed['found']}" if deed.get("found") else ""))
        for deed in played_one["deeds"]
    ]
    happened += [
        (change["seconds"], f"{change['cluster']} is {change['verdict']}")
        for change in played_one["changes"]
        if change["seconds"] >= 0
    ]
    happened += [
        (seconds, f"{leader or 'no controller'} leads") for seconds, leader in played_one["leaders"] if seconds >= 0
    ]
    happened += [(seconds, "the watch ended and was restarted") for seconds in played_one.get("reconnects", ())]
    for operation in played_one["operations"]:
        name = f"{operation['kind']} of {operation['query']}"
        happened.append((_offset(operation["started_at"], played_one), f"{name} begins"))
        if operation["ended_at"]:
            happened.append((_offset(operation["ended_at"], played_one), f"{name}: {operation['outcome']}"))
    judged = [f"{query} {row['judged']}" for query, row in sorted(played_one["verdict"].items()) if "judged" in row]
    bullets = (
        *(f"{_at(seconds, played_one)}: {text}" for seconds, text in sorted(happened)),
        *(f"{when}: {_load(load)}" for when, load in played_one.get("loads", {}).items()),
        *([f"judged: {', '.join(judged)}"] if judged else []),
        *(["no secret was found where others may read it"] if played_one.get("leaks") in ([], ()) else []),
        *(f"not as expected: {problem}" for problem in played_one["problems"]),
        *(
            f"played before, {each['begun']} on {each['commit']}, not as expected: {each['problems']}"
            for each in played_one.get("earlier", ())
        ),
    )
    return Section(title=played_one["name"], texts=(f"{played_one['title']}. {_where(played_one)}",), bullets=bullets)


def _where(played_one: PlayedScenario) -> str:
    if played_one["environment"] in {"", played_one["scenario"]}:
        return f"Ready after {played_one['up_seconds']:.0f} s, in an environment of its own or the first in it."
    return f"Ready again after {played_one['up_seconds']:.0f} s, in the environment of {played_one['environment']}."


def _load(load: Mapping[str, Any]) -> str:
    """What came through between two counts, of the query with least."""
    least = {
        key: min((row[key] - load["before"][query][key] for query, row in load["after"].items()), default=0)
        for key in ("acked", "delivered")
    }
    return f"{least['acked']:,} records were acknowledged and {least['delivered']:,} delivered, or more"


def _at(seconds: float, played_one: PlayedScenario) -> str:
    """After the first step; the time of day where it did not come to one."""
    return f"{seconds:.1f} s" if played_one["struck_at"] else f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S} UTC"


def _offset(at: str, played_one: PlayedScenario) -> float:
    return datetime.fromisoformat(at).timestamp() - float(played_one["struck_at"])


def _most(played_one: PlayedScenario, key: str) -> str:
    return f"{max(row[key] for row in played_one['verdict'].values()):,}" if played_one["verdict"] else "-"


def _seconds(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f} s"
