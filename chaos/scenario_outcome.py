"""What became of a scenario, and whether that is what was expected. Pure."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chaos.faults import HEALS, PRIMARY, STANDBY, WORKERS, Act, Action, Observation, When
from chaos.scenarios import TIMES, Scenario

_VERDICT = re.compile(r"(?P<cluster>\S+) is (?P<verdict>[A-Z_]+): ")
"""How the history words a verdict."""
_MOST_EXPOSED = 1_000
"""Acknowledged records of a query that may be left behind without consent. At most 100 were seen,
and a replicator that was dead for 90 s left 18,000."""
_CLOCKS_SECONDS = 1.0
"""By so much what was timed by one process may seem to come before its cause, which was timed by another."""
_DRILL = "drill"
_ANSWERED = f"stays on {PRIMARY}: cluster-down: "
"""In the sentence of a move that was called off, because what was left is not known to be down any more."""
_LOADED = {"acked": "acknowledged", "delivered": "delivered"}


@dataclass(frozen=True, kw_only=True)
class Change:
    """A verdict that was not the one before."""

    seconds: float
    """After the first fault; negative before."""
    cluster: str
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Load:
    """Two counts, between which records must have been acknowledged and delivered."""

    before: Mapping[str, Mapping[str, Any]]
    """`python -m lab verify -o json`."""
    after: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was seen and measured."""

    scenario: str
    environment: str = ""
    """The scenario that began it."""
    up_seconds: float = 0.0
    """Until it could begin."""
    struck_at: float = 0.0
    """Unix time of the first step; 0 where it did not come to one, and then every time here is one as Unix has it."""
    deeds: Sequence[Action] = ()
    changes: Sequence[Change] = ()
    leaders: Sequence[tuple[float, str | None]] = ()
    """Seconds after the first fault, and who was seen to lead from then on."""
    reconnects: Sequence[float] = ()
    """Seconds after the first fault at which the watch ended and was started again."""
    places: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """By query: cluster, runner and state in the end."""
    epochs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By query: its epoch before the first step, and in the end."""
    operations: Sequence[Mapping[str, Any]] = ()
    """`show-op -o json` of each operation since the scenario began, oldest first."""
    tail: int = 0
    """How many records were reported to be on the primary alone, before replication was reversed."""
    verdict: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`python -m lab verify -o json`."""
    loads: Mapping[str, Load] = field(default_factory=dict)
    """By the words for when it was shown."""
    broke: str = ""
    """Why the test run did not come to its end."""
    unhealed: str = ""
    """Why not all was well again in the end, where nothing should have moved."""
    leaks: Sequence[str] | None = None
    """Where a secret was found, or why that is not known; nothing where there are no secrets."""


def changes_of(history: Iterable[Mapping[str, Any]], struck_at: float) -> list[Change]:
    """Every change of a verdict, in order: the store has a line of history for each, whether anybody watched or not."""
    return [
        Change(
            seconds=round(_unix(event["at"]) - struck_at, 3), cluster=reported["cluster"], verdict=reported["verdict"]
        )
        for event in history
        if event["kind"] == "verdict" and (reported := _VERDICT.match(event["text"]))
    ]


def leaders_of(sights: Iterable[Observation], struck_at: float) -> list[tuple[float, str | None]]:
    """Every change of who leads, in order."""
    found: list[tuple[float, str | None]] = []
    for sight in sights:
        if not found or found[-1][1] != sight.leader:
            found.append((round(_unix(sight.at) - struck_at, 3), sight.leader))
    return found


def judge(scenario: Scenario, outcome: Outcome) -> list[str]:
    """What is not as expected, in sentences; empty when all is."""
    if outcome.broke:
        return [outcome.broke, *_unhealed(outcome), *_unwanted(scenario, outcome), *(outcome.leaks or ())]
    return [
        *_unhealed(outcome),
        *_mistimed(scenario, outcome),
        *_idle(outcome),
        *_unled(outcome),
        *_unreturned(scenario, outcome),
        *_misplaced(scenario, outcome),
        *_mismoved(scenario, outcome),
        *_touched(scenario, outcome),
        *_unwanted(scenario, outcome),
        *_misjudged(scenario, outcome),
        *_unrefused(scenario, outcome),
        *_unloaded(scenario, outcome.loads),
        *_unjudged(outcome),
        *_miscounted(scenario, outcome.operations, outcome.verdict, outcome.tail),
        *(outcome.leaks or ()),
    ]


def announced_repeats(operations: Iterable[Mapping[str, Any]], query: str) -> int:
    """How many records of a query its moves said would be read twice: at once, or when a replicator brings them."""
    totals = [
        {**((operation.get("plan") or {}).get("totals") or {}), **_measured_repeats(operation)}
        for operation in operations
        if operation["query"] == query and operation["outcome"] == "done"
    ]
    keys = ("replay_records", "possible_replay_records", "replay_later_records")
    return sum(total.get(key) or 0 for total in totals for key in keys)


def _measured_repeats(operation: Mapping[str, Any]) -> dict[str, int]:
    """Of a batch that was to continue in its run: what became of it counts, where it is known, and not the plan."""
    known = (operation.get("measured") or {}).get("possible_replay_records")
    return {} if known is None else {"possible_replay_records": known}


def is_counted(
    scenario: Scenario, operations: Sequence[Mapping[str, Any]], verdict: Mapping[str, Mapping[str, Any]], tail: int
) -> bool:
    """Whether the counts are as they shall be, so that counting again would show nothing new."""
    return not list(_miscounted(scenario, operations, verdict, tail))


def _mistimed(scenario: Scenario, outcome: Outcome) -> Iterable[str]:
    """A fault in the middle of a move that came when no query was in the middle of one shows nothing."""
    for deed in outcome.deeds:
        if deed.when is not When.MOVING:
            continue
        at = outcome.struck_at + deed.done
        if not any(_unix(each["started_at"]) <= at < _end_of(scenario, each) for each in outcome.operations):
            yield f"{deed.text}: that came too late or too early to hit a move"


def _idle(outcome: Outcome) -> Iterable[str]:
    """A worker without executors of the runner that moves the queries takes nothing with it."""
    hosts = {runner for _, runner, _ in outcome.places.values()}
    for deed in outcome.deeds:
        wanted = deed.when is When.MOVING and deed.act is Act.KILL and {*deed.on} & {*WORKERS}
        if wanted and not any(f"tideover {runner}" in deed.found for runner in hosts):
            yield f"{deed.text}: none of the executors was there"


def _end_of(scenario: Scenario, operation: Mapping[str, Any]) -> float:
    """Until when a move counts as under way for this scenario."""
    ends = [operation["ended_at"]]
    if scenario.before_commit:
        ends += [step["started_at"] for step in operation["steps"] if step["name"] == "commit"]
    return min((_unix(each) for each in ends if each), default=math.inf)


def _unled(outcome: Outcome) -> Iterable[str]:
    """After a leader was struck the other controller leads, and before that one is well again."""
    for number, deed in enumerate(outcome.deeds):
        if not deed.strikes_controller:
            continue
        later = outcome.deeds[number + 1 :]
        well = next((each.begun for each in later if each.act in HEALS and each.on == deed.on), math.inf)
        led = [name for at, name in outcome.leaders if at < deed.done][-1:]
        led += [name for at, name in outcome.leaders if deed.done <= at < well]
        if not {*led} - {None, *deed.on}:
            yield f"{deed.text}: the other controller did not lead after that"


def _unreturned(scenario: Scenario, outcome: Outcome) -> Iterable[str]:
    """A primary that never was well again has not shown what its return does."""
    back = max((deed.begun for deed in outcome.deeds if deed.returns_primary), default=math.inf)
    later = {each.verdict for each in outcome.changes if each.cluster == PRIMARY and each.seconds >= back}
    if (scenario.returns or scenario.comes_home) and "UP" not in later:
        yield f"{PRIMARY} was never UP after it came back"


def _stayed(scenario: Scenario, outcome: Outcome) -> set[str]:
    """Queries that may stay and whose move was called off: the primary answered again."""
    if not scenario.may_stay:
        return set()
    off = [each for each in outcome.operations if each["outcome"] == "refused" and _ANSWERED in each["sentence"]]
    return {each["query"] for each in off}


def _misplaced(scenario: Scenario, outcome: Outcome) -> Iterable[str]:
    stayed = _stayed(scenario, outcome)
    if not outcome.places:
        yield "no query was seen in the end"
    for query, (cluster, runner, state) in sorted(outcome.places.items()):
        wanted = PRIMARY if query in stayed else scenario.end
        if (cluster, runner, state) != (wanted, scenario.runner, "running"):
            yield f"{query} is {state} on {cluster} by runner {runner}, not running on {wanted} by {scenario.runner}"


def _mismoved(scenario: Scenario, outcome: Outcome) -> Iterable[str]:
    """A query moves as often as it shall, each time by the kind of operation that was to move it; none is left open."""
    for operation in outcome.operations:
        if operation["outcome"] is None:
            yield f"{operation['kind']} of {operation['query']} is still open"
    stayed = _stayed(scenario, outcome)
    for query in outcome.places if scenario.moves else ():
        kinds = [operation["kind"] for operation in _done(outcome) if operation["query"] == query]
        moved_by = () if query in stayed else scenario.moved_by
        if len(kinds) != len(moved_by):
            yield f"{query} was moved {len(kinds)} times, not {TIMES[len(moved_by)]}"
            continue
        for kind, wanted in zip(kinds, moved_by, strict=True):
            if kind not in wanted:
                yield f"{query} was moved by a {kind}, not by a {' or a '.join(sorted(wanted))}"


def _touched(scenario: Scenario, outcome: Outcome) -> Iterable[str]:
    """A drill that was not proven shows nothing, and one that raises the epoch has touched what it must not."""
    for query in sorted(outcome.places) if scenario.drills else ():
        drills = [each for each in outcome.operations if (each["kind"], each["query"]) == (_DRILL, query)]
        if [each["outcome"] for each in drills] != ["done"]:
            yield f"{query} was drilled {len(drills)} times, not once to a proven end"
        before, after = outcome.epochs.get(query, (None, None))
        if before is None or before != after:
            yield f"{query} had epoch {before} before the drill, and {after} in the end"


def _done(outcome: Outcome) -> list[Mapping[str, Any]]:
    """The moves that came to their end; a drill moves nothing."""
    return [each for each in outcome.operations if each["outcome"] == "done" and each["kind"] != _DRILL]


def _unhealed(outcome: Outcome) -> Iterable[str]:
    if outcome.unhealed:
        yield f"it did not heal: {outcome.unhealed}"


def _unwanted(scenario: Scenario, outcome: Outcome) -> Iterable[str]:
    """What was moved though nothing may move, begun before there was a cause, or believed before the primary died.

    A cause is that the primary was struck, or that a person requested a switchover.

    That is also reported of a test run that broke, and may be why it did.
    Steps are timed by the clock of the machine, verdicts and operations by the store's in a container on it: the same.
    """
    if not scenario.moves:
        if done := _done(outcome):
            yield f"{len(done)} queries were moved, and none should have been"
        return
    steps = outcome.deeds[scenario.calm_steps :]
    struck = next((deed.begun for deed in steps if deed.strikes_primary), math.inf) - _CLOCKS_SECONDS
    requested = next((deed.begun for deed in steps if deed.requests_leave), math.inf) - _CLOCKS_SECONDS
    for operation in outcome.operations:
        if _unix(operation["started_at"]) - outcome.struck_at < min(struck, requested):
            yield f"{operation['kind']} of {operation['query']} began before there was a cause"
    own = steps[0].begun if steps else math.inf  # parts come before it, and say themselves what must not be believed
    for change in outcome.changes:
        if change.cluster == PRIMARY and change.verdict == "DOWN" and own <= change.seconds < struck:
            yield f"{PRIMARY} was DOWN after {change.seconds:.1f} s, before it was struck"


def _misjudged(scenario: Scenario, outcome: Outcome) -> Iterable[str]:
    """Each part by what was believed from its first step to that of the next one."""
    begun, deeds = 0.0, outcome.deeds
    for part in scenario.parts:
        own, deeds = deeds[: len(part.steps)], deeds[len(part.steps) :]
        until = deeds[0].begun if deeds else math.inf
        for problem in _misbelieved(part, own, begun, until, outcome.changes):
            yield f"{problem}, in {part.name}"
        begun = until
    yield from _misbelieved(scenario, deeds, begun, math.inf, outcome.changes)


def _misbelieved(
    part: Scenario, deeds: Sequence[Action], begun: float, until: float, changes: Sequence[Change]
) -> Iterable[str]:
    """What must be said of a fault that heals must be said while it lasts."""
    healed = min((deed.begun for deed in deeds if deed.act in HEALS and not part.moves), default=until)
    of_either = [each for each in changes if begun <= each.seconds < until]
    if part.either and not any(each.verdict in part.either for each in of_either if each.seconds < healed):
        yield f"neither cluster was {' or '.join(sorted(part.either))}"
    given = [each for each in of_either if each.cluster == PRIMARY]
    for verdict in sorted(part.verdicts - {each.verdict for each in given if each.seconds < healed}):
        yield f"{PRIMARY} was never {verdict}"
    for cluster, verdict in sorted({(each.cluster, each.verdict) for each in of_either if each.verdict in part.never}):
        yield f"{cluster} was {verdict}, and should never have been"


def _unrefused(scenario: Scenario, outcome: Outcome) -> Iterable[str]:
    """A consent is for what was refused without one."""
    refused = {each["query"] for each in outcome.operations if each["outcome"] == "refused"}
    for query in sorted(outcome.places.keys() - refused) if scenario.consented else ():
        yield f"{query} was not refused before the consent"


def _unloaded(scenario: Scenario, loads: Mapping[str, Load]) -> Iterable[str]:
    """Where nothing is produced nothing can be lost."""
    for when in scenario.shown:
        load = loads.get(when, Load(before={}, after={}))
        if not (load.before and load.after):
            yield f"it was not counted {when}"
            continue
        for query, before in sorted(load.before.items()):
            for key, word in _LOADED.items():
                if load.after[query][key] <= before[key]:
                    yield f"{query}: nothing was {word} {when}"


def _unjudged(outcome: Outcome) -> Iterable[str]:
    """A query of which the verdict says nothing."""
    for query in sorted(outcome.places.keys() - outcome.verdict.keys()) if outcome.verdict else ():
        yield f"{query} was not judged"


def _miscounted(
    scenario: Scenario, operations: Sequence[Mapping[str, Any]], verdict: Mapping[str, Mapping[str, Any]], tail: int
) -> Iterable[str]:
    """What may not be, by the counts. ``tail`` records may be acknowledged and not at home, and no other one."""
    if not verdict:
        yield "nothing was verified"
    all_come = scenario.returns or not (scenario.moves and scenario.strikes_primary)
    for query, row in sorted(verdict.items()):
        allowed = announced_repeats(operations, query) if scenario.returns else 0
        if not row["delivered"]:
            yield f"{query}: nothing was delivered"
        if row["lost"]:
            yield f"{query}: lost {row['lost']}"
        if row["duplicated"] > allowed:
            yield f"{query}: repeated {row['duplicated']}, announced {allowed}"
        if scenario.consented and not row["exposed"]:
            yield f"{query}: nothing was left behind, so there was nothing to consent to"
        if scenario.comes_home and not row["exposed"]:
            yield f"{query}: {PRIMARY} alone had nothing, so the report of the tail shows nothing"
        if scenario.comes_home and row["exposed"] > tail:
            yield f"{query}: {row['exposed']} acknowledged records are not at home, and the tail has {tail}"
        if row["exposed"] and all_come:
            yield f"{query}: {row['exposed']} acknowledged records never came to {STANDBY}"
        elif row["exposed"] > _MOST_EXPOSED and not (scenario.consented or scenario.comes_home):
            yield f"{query}: {row['exposed']} records were left behind, more than {_MOST_EXPOSED}, without a consent"


def _unix(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
