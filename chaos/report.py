"""What came out: `report.json` for programs, a page for people. Pure."""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from chaos.outcome import PRIMARY, Outcome, announced_repeats, judge
from chaos.scenarios import Scenario

Row = tuple[Scenario, Outcome]

_LEGEND = (
    "DOWN after: from the first fault. Switch: the longest of the queries, from the decision to the first batch "
    "committed on the standby. Lost, repeated, exposed: of the query with most; exposed records were acknowledged "
    "and never came to the standby. In brackets: repeats that the plan had announced."
)


def as_json(rows: Sequence[Row], surroundings: Mapping[str, str]) -> dict[str, Any]:
    """The whole report."""
    return {
        "expected": all(not judge(scenario, outcome) for scenario, outcome in rows),
        "surroundings": dict(surroundings),
        "scenarios": [
            {
                "name": scenario.name,
                "title": scenario.title,
                "expected": not (problems := judge(scenario, outcome)),
                "problems": problems,
                "seconds": measured(outcome),
                **dataclasses.asdict(outcome),
            }
            for scenario, outcome in rows
        ],
    }


def measured(outcome: Outcome) -> dict[str, float | None]:
    """From the first fault to the verdict DOWN, and the longest switch of a query, in seconds."""
    down = [each.seconds for each in outcome.changes if each.cluster == PRIMARY and each.verdict == "DOWN"]
    switches = [
        operation["measured"]["switch_seconds"]
        for operation in outcome.operations
        if operation["outcome"] == "done" and operation["measured"].get("switch_seconds") is not None
    ]
    after = [seconds for seconds in down if seconds >= 0]
    return {"down": after[0] if after else None, "switch": max(switches, default=None)}


def page(rows: Sequence[Row], surroundings: Mapping[str, str]) -> str:
    """The report as a page of Markdown."""
    right = sum(not judge(scenario, outcome) for scenario, outcome in rows)
    lines = [
        "# Chaos in the compose environment",
        "",
        *(f"- {key}: {value}" for key, value in surroundings.items()),
        "",
        f"{right} of {len(rows)} scenarios ended as expected.",
        "",
        "| Scenario | Fault | As expected | DOWN after | Switch | Lost | Repeated | Exposed |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(scenario, outcome) for scenario, outcome in rows),
        "",
        _LEGEND,
        "",
    ]
    for scenario, outcome in rows:
        lines += _story(scenario, outcome)
    return "\n".join(lines)


def _row(scenario: Scenario, outcome: Outcome) -> str:
    seconds = measured(outcome)
    announced = max((announced_repeats(outcome.operations, query) for query in outcome.verdict), default=0)
    repeated = _most(outcome, "duplicated") + (f" [{announced}]" if scenario.returns else "")
    return (
        f"| {scenario.name} | {scenario.title} | {'no' if judge(scenario, outcome) else 'yes'} "
        f"| {_seconds(seconds['down'])} | {_seconds(seconds['switch'])} "
        f"| {_most(outcome, 'lost')} | {repeated} | {_most(outcome, 'exposed')} |"
    )


def _story(scenario: Scenario, outcome: Outcome) -> list[str]:
    happened = [(seconds, f"**{text}**") for seconds, text in outcome.steps]
    happened += [
        (change.seconds, f"{change.cluster} is {change.verdict or 'without a verdict'}")
        for change in outcome.changes
        if change.seconds >= 0
    ]
    for operation in outcome.operations:
        end = operation["outcome"] or "open"
        happened.append((_offset(operation, outcome), f"{operation['kind']} of {operation['query']}: {end}"))
    return [
        f"## {scenario.name}",
        "",
        f"{scenario.title}. {_where(outcome)}",
        "",
        *(f"- {seconds:.1f} s: {text}" for seconds, text in sorted(happened)),
        *(f"- not as expected: {problem}" for problem in judge(scenario, outcome)),
        "",
    ]


def _where(outcome: Outcome) -> str:
    if outcome.environment in {"", outcome.scenario}:
        return f"Ready after {outcome.up_seconds:.0f} s, in an environment of its own or the first in it."
    return f"Ready again after {outcome.up_seconds:.0f} s, in the environment of {outcome.environment}."


def _offset(operation: Mapping[str, Any], outcome: Outcome) -> float:
    return datetime.fromisoformat(operation["started_at"]).timestamp() - outcome.struck_at


def _most(outcome: Outcome, key: str) -> str:
    return f"{max(row[key] for row in outcome.verdict.values()):,}" if outcome.verdict else "-"


def _seconds(number: float | None) -> str:
    return "-" if number is None else f"{number:.1f} s"
