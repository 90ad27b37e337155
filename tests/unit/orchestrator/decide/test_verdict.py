"""The table of verdicts: what this controller saw, what others saw, and what is to be believed."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.decide.verdict import Judgement, form, judge_cluster, stale_after, verdict_event
from state.model.cluster_status import ProbeReport, Verdict
from state.settings.keys import Detection
from tests.courses import Course, Replicator, Runner
from tests.sights import DETECTION, at, row, seen, sight, window
from tests.thorough import tries

RUNNER, REPLICATOR = "runner:a", "replicator:east->west"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Looks as ``what@second``; ``now`` is when the verdict is requested."""

    mine: str
    runner: str = ""
    replicator: str = ""
    now: float
    verdict: Verdict
    says: str = ""


CASES = {
    "nobody has looked yet": Case(mine="", now=0, verdict=Verdict.UNKNOWN),
    "it answers": Case(mine="ok@0 ok@0.5", now=0.6, verdict=Verdict.UP, says="in 3 ms"),
    "it answers here, and a runner fails": Case(
        mine="ok@0 ok@0.5", runner="refused@0 refused@0.4", now=0.6, verdict=Verdict.UP, says="runner:a never saw it"
    ),
    "it answers here, and no heartbeat of it can be read": Case(
        mine="ok@0 ok@0.5", replicator="silent@0 silent@0.4", now=0.6, verdict=Verdict.UP,
        says="replicator:east->west has seen no heartbeat yet: ",
    ),
    "its endpoint leads elsewhere, at the first look": Case(
        mine="ok@0 not-here@0.5", now=0.6, verdict=Verdict.SUSPECT,
        says="endpoint dr leads to west now; NOT_HERE needs 3 such looks in a row, and this is number 1",
    ),
    "its endpoint leads elsewhere, at as many looks as DOWN needs": Case(
        mine="ok@0 not-here@0.5 not-here@1 not-here@1.5", now=1.6, verdict=Verdict.NOT_HERE,
        says="endpoint dr leads to west now",
    ),
    "its endpoint leads elsewhere at every other look": Case(
        mine="not-here@0 not-here@0.5 ok@1 not-here@1.5 not-here@2", now=2.1, verdict=Verdict.SUSPECT
    ),
    "its endpoint was silent, and leads elsewhere": Case(
        mine="ok@0 refused@0.5 refused@1 refused@1.5 not-here@2", now=2.1, verdict=Verdict.SUSPECT
    ),
    "its endpoint led elsewhere once, and is silent since": Case(
        mine="ok@0 not-here@0.5 unanswered@1 unanswered@1.5 unanswered@2", now=2.1, verdict=Verdict.SUSPECT
    ),
    "its endpoint led elsewhere for long, and is silent since": Case(
        mine="not-here@0 not-here@0.5 not-here@1 unanswered@1.5", now=1.6, verdict=Verdict.NOT_HERE
    ),
    "its endpoint leads elsewhere here, and a runner still sees it": Case(
        mine="ok@0 not-here@0.5 not-here@1 not-here@1.5", runner="ok@0.7 ok@1.2", now=1.6,
        verdict=Verdict.UNREACHABLE_FROM_HERE, says="leads to west now; but runner:a saw east alive at 12:00:01.2",
    ),
    "its endpoint leads elsewhere, and a runner may still say that it sees it": Case(
        mine="ok@0 not-here@0.5 not-here@1 not-here@1.5", runner="ok@0.4", now=1.6, verdict=Verdict.SUSPECT,
        says="runner:a saw east alive at 12:00:00.4; waiting for its next report",
    ),
    "its endpoint leads elsewhere for a runner, too": Case(
        mine="ok@0 not-here@0.5 not-here@1 not-here@1.5", runner="ok@0.4 not-here@0.9", now=1.6,
        verdict=Verdict.NOT_HERE,
    ),
    "its endpoint turned later for a runner, by as many looks": Case(
        mine="not-here@0 not-here@0.5 not-here@1 not-here@1.5 not-here@2 not-here@2.5",
        runner="ok@0.7 not-here@1.2 not-here@1.7 not-here@2.2", now=2.6, verdict=Verdict.NOT_HERE,
    ),
    "its endpoint leads elsewhere, and heartbeats still come from it": Case(
        mine="not-here@0 not-here@0.5 not-here@1", replicator="ok@1", now=1.1, verdict=Verdict.NOT_HERE
    ),
    "the first failure": Case(mine="ok@0 refused@0.5", now=0.6, verdict=Verdict.SUSPECT, says="DOWN needs 3"),
    "the second failure": Case(mine="ok@0 refused@0.5 refused@1", now=1.1, verdict=Verdict.SUSPECT),
    "the third failure, and nobody else looks": Case(
        mine="ok@0 refused@0.5 refused@1 refused@1.5", now=1.6, verdict=Verdict.DOWN, says="3 probes failed in a row"
    ),
    "silent three times, the looks overlapping": Case(
        mine="ok@0 silent@0.5 silent@1 silent@1.5", now=2.6, verdict=Verdict.DOWN
    ),
    "a single answer in between": Case(mine="refused@0 refused@0.5 ok@1 refused@1.5", now=1.6, verdict=Verdict.SUSPECT),
    "a runner that fails, too": Case(
        mine="ok@0 refused@0.5 refused@1 refused@1.5", runner="ok@0.2 refused@0.7 refused@1.2", now=1.6,
        verdict=Verdict.DOWN, says="runner:a saw it alive at 12:00:00.2, but not now",
    ),
    "a runner that died with its cluster": Case(
        mine="ok@0 refused@10 refused@10.5 refused@11", runner="ok@0.2", now=11.1, verdict=Verdict.DOWN,
        says="runner:a saw it alive at 12:00:00.2, and has been silent for 11 s",
    ),
    "failures of before a runner saw it live, which all have failed since": Case(
        mine="refused@0 refused@0.5 refused@1", runner="ok@1.2 refused@1.3 refused@1.4 refused@1.5", now=1.6,
        verdict=Verdict.UNREACHABLE_FROM_HERE,
    ),
    "a runner that still sees it": Case(
        mine="ok@0 silent@0.5 silent@1 silent@1.5", runner="ok@0.2 ok@0.7 ok@1.2", now=2.6,
        verdict=Verdict.UNREACHABLE_FROM_HERE, says="runner:a saw it alive at 12:00:01.2",
    ),
    "a runner that saw it once after the first failure, then everybody fails": Case(
        mine="refused@0 refused@0.5 refused@1 refused@1.5 refused@2 refused@2.5",
        runner="ok@0.7 refused@1.2 refused@1.7 refused@2.2", now=2.6, verdict=Verdict.DOWN,
    ),
    "a runner that saw it after the first failure, and failed once: it may be the runner": Case(
        mine="refused@0 refused@0.5 refused@1 refused@1.5 refused@2 refused@2.5", runner="ok@0.7 refused@1.2", now=2.6,
        verdict=Verdict.UNREACHABLE_FROM_HERE,
    ),
    "a runner that saw it after the first failure, and then says nothing for long": Case(
        mine="refused@0 refused@3 refused@4 refused@4.5 refused@5 refused@5.5", runner="ok@0.7", now=5.75,
        verdict=Verdict.DOWN,
    ),
    "the same, a moment earlier": Case(
        mine="refused@0 refused@3 refused@4 refused@4.5 refused@5 refused@5.5", runner="ok@0.7", now=5.65,
        verdict=Verdict.UNREACHABLE_FROM_HERE,
    ),
    "a runner that saw it just before the first failure, and may say so again": Case(
        mine="ok@0 refused@0.5 refused@1 refused@1.5", runner="ok@0.4", now=1.6, verdict=Verdict.SUSPECT,
        says="runner:a saw it alive at 12:00:00.4; waiting for its next report",
    ),
    "the same, when it should have": Case(
        mine="ok@0 refused@0.5 refused@1 refused@1.5 refused@2", runner="ok@0.4", now=2.45, verdict=Verdict.DOWN
    ),
    "the same, one look earlier": Case(
        mine="refused@0 refused@0.5 refused@1 refused@1.5", runner="ok@0.7 refused@1.2", now=1.6,
        verdict=Verdict.UNREACHABLE_FROM_HERE,
    ),
    "before a full row, a runner's word makes no difference": Case(
        mine="refused@0 refused@0.5", runner="ok@0.2", now=0.6, verdict=Verdict.SUSPECT
    ),
    "a heartbeat written after the first failure": Case(
        mine="silent@0 silent@0.5 silent@1", replicator="ok@1.3", now=2.1, verdict=Verdict.UNREACHABLE_FROM_HERE,
        says="replicator:east->west saw it alive",
    ),
    "a heartbeat from before the first failure": Case(
        mine="silent@1 silent@1.5 silent@2", replicator="ok@0.9", now=3.1, verdict=Verdict.DOWN
    ),
    "a sign of life from a clock that was set back since": Case(
        mine="refused@0 refused@0.5 refused@1", runner="ok@3600", now=1.1, verdict=Verdict.DOWN
    ),
    "our credentials are refused": Case(
        mine="ok@0 credential@0.5 credential@1 credential@1.5", now=1.6, verdict=Verdict.CONFIG_ERROR,
        says="correct our configuration",
    ),
    "refused at the first look already": Case(mine="credential@0", now=0.1, verdict=Verdict.CONFIG_ERROR),
    "bad credentials, then the cluster dies": Case(
        mine="credential@0 credential@0.5 refused@1 refused@1.5 refused@2", now=2.1, verdict=Verdict.DOWN
    ),
    "dead, then back with bad credentials": Case(
        mine="refused@0 refused@0.5 refused@1 credential@1.5", now=1.6, verdict=Verdict.CONFIG_ERROR
    ),
    "another cluster has the name, and others say so, too": Case(
        mine="ok@0 identity@0.5 identity@1 identity@1.5", runner="ok@0.2 identity@0.7 identity@1.2", now=1.6,
        verdict=Verdict.CONFIG_ERROR, says="east leads to cluster B: correct our configuration",
    ),
    "dead, and then another cluster has its name": Case(
        mine="ok@0 refused@0.5 refused@1 identity@1.5", now=1.6, verdict=Verdict.CONFIG_ERROR
    ),
    "no network here": Case(
        mine="no-network@0 no-network@0.5 no-network@1", now=1.1, verdict=Verdict.UNREACHABLE_FROM_HERE,
        says="the cause is on this host",
    ),
    "no network here in the middle of a row": Case(
        mine="refused@0 refused@0.5 no-network@1 refused@1.5", now=1.6, verdict=Verdict.SUSPECT
    ),
    "back once after it was down": Case(
        mine="refused@0 refused@0.5 refused@1 ok@1.5", now=1.6, verdict=Verdict.SUSPECT,
        says="it answers again, 1 of 3 times",
    ),
    "back for good after it was down": Case(
        mine="refused@0 refused@0.5 refused@1 ok@1.5 ok@2 ok@2.5", now=2.6, verdict=Verdict.UP
    ),
    "up and down": Case(
        mine="refused@0 refused@0.5 refused@1 ok@1.5 ok@2 refused@2.5 ok@3", now=3.1, verdict=Verdict.SUSPECT
    ),
    "back after a single failure": Case(mine="ok@0 refused@0.5 ok@1", now=1.1, verdict=Verdict.UP),
    "the looking itself has stopped": Case(
        mine="refused@0 refused@0.5 refused@1", now=60, verdict=Verdict.UNKNOWN, says="the limit is 3.0 s"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(name: str) -> None:
    case = CASES[name]
    others = [each for each in (seen(case.runner, RUNNER), seen(case.replicator, REPLICATOR)) if each is not None]
    judgement = judge_cluster(seen(case.mine), others, at(case.now), DETECTION)
    assert judgement.verdict is case.verdict, judgement.reasons
    assert case.says in " | ".join(judgement.reasons)


@pytest.mark.parametrize(
    ("health", "says"),
    [
        ({"brokers_silent": 1, "unreadable": 4}, "1 of 3 brokers: no answer"),
        ({"leaderless": 2}, "2 of 12 partitions: no leader"),
        ({"unreadable": 4}, "4 of 12 partitions: cannot be read"),
        ({"under_min_isr": 1, "under_replicated": 1}, "1 of 12 partitions: fewer replicas in sync than"),
        ({"under_replicated": 1, "under_min_isr": None}, "1 of 12 partitions: replicas that lag"),
    ],
)
def test_a_cluster_that_answers_in_part_is_degraded(health: dict[str, Any], says: str) -> None:
    judgement = judge_cluster(seen(window(sight(0, **health))), [], at(0.1), DETECTION)
    assert judgement.verdict is Verdict.DEGRADED
    assert judgement.reasons[0].startswith(says)


def test_a_window_that_was_voided_is_unknown_until_there_is_fresh_evidence() -> None:
    voided = window(*row("refused@0 refused@0.5 refused@1")).void(60.0, "this process was stopped for 59 s")
    for looks, now, verdict in (
        ("", 60.1, Verdict.UNKNOWN),
        ("refused@61 refused@61.5", 61.6, Verdict.UNKNOWN),
        ("refused@61 refused@61.5 refused@62", 62.1, Verdict.DOWN),
        ("ok@61", 61.1, Verdict.UP),
    ):
        fresh = voided
        for each in row(looks):
            fresh = fresh.after(each)
        judgement = judge_cluster(seen(fresh), [], at(now), DETECTION)
        assert judgement.verdict is verdict, looks
        if verdict is Verdict.UNKNOWN:
            assert "12:01:00" in judgement.reasons[0]


def test_a_belief_keeps_its_beginning_and_names_its_first_failure() -> None:
    mine = seen("ok@0 refused@0.5 refused@1 refused@1.5")
    judgement = judge_cluster(mine, [], at(1.6), DETECTION)
    down = form("east", judgement, mine, standing=None, now=at(1.6), term=7)
    assert (down.verdict, down.since, down.first_failed_at, down.term) == (Verdict.DOWN, at(1.6), at(0.5), 7)
    later = form("east", judgement, mine, standing=down, now=at(2.6), term=8)
    assert (later.since, later.decided_at) == (at(1.6), at(2.6))
    event = verdict_event(down, standing=None, actor="controller one")
    assert event.text.startswith("east is DOWN: 3 probes failed in a row since 12:00:00.5: connection refused")
    assert (event.detail["before"], event.detail["first_failed_at"]) == (None, at(0.5).isoformat())
    well = verdict_event(replace(down, first_failed_at=None), standing=down, actor="controller one")
    assert (well.detail["before"], well.detail["first_failed_at"]) == ("DOWN", None)


@pytest.mark.parametrize(
    ("verdict", "down"),
    [(Verdict.UP, None), (Verdict.DEGRADED, None)]
    + [(each, at(1)) for each in Verdict if each not in {Verdict.UP, Verdict.DEGRADED}],
)
def test_only_a_cluster_that_was_seen_well_was_not_down_all_the_time(verdict: Verdict, down: datetime | None) -> None:
    first = form("east", Judgement(Verdict.DOWN, ("silent",)), None, standing=None, now=at(1), term=7)
    between = form("east", Judgement(verdict, ("so",)), None, standing=first, now=at(2), term=8)
    again = form("east", Judgement(Verdict.DOWN, ("silent",)), None, standing=between, now=at(3), term=8)
    assert (first.down_since, between.down_since, again.down_since) == (at(1), down, down or at(3))


def test_with_the_stores_clock_set_back_a_cluster_went_down_by_now() -> None:
    first = form("east", Judgement(Verdict.DOWN, ("silent",)), None, standing=None, now=at(3600), term=7)
    between = form("east", Judgement(Verdict.UNKNOWN, ("set back",)), None, standing=first, now=at(60), term=7)
    again = form("east", Judgement(Verdict.DOWN, ("silent",)), None, standing=between, now=at(120), term=7)
    assert again.down_since == at(60)


def test_a_cluster_that_is_only_in_doubt_is_not_down_yet() -> None:
    doubt = form("east", Judgement(Verdict.SUSPECT, ("silent",)), None, standing=None, now=at(1), term=7)
    assert doubt.down_since is None


# -- rules -----------------------------------------------------------------------------------------------------------
WORDS = ("ok", "refused", "silent", "credential", "no-network")
LOOKS = st.lists(st.tuples(st.integers(0, 100), st.sampled_from(WORDS)), max_size=12, unique_by=lambda each: each[0])


def judged(
    mine: list[tuple[int, str]], others: list[tuple[int, str]], now: int
) -> tuple[ProbeReport, Judgement] | None:
    probe_report = seen(window(*(sight(when / 10, what) for when, what in sorted(mine))))
    if probe_report is None:
        return None
    other = seen(window(*(sight(when / 10, what) for when, what in sorted(others))), RUNNER)
    return probe_report, judge_cluster(probe_report, [other] if other else [], at(now / 10), DETECTION)


@given(LOOKS, LOOKS, st.integers(0, 130))
def test_down_needs_a_full_row_of_failures_after_all_evidence(
    mine: list[tuple[int, str]], others: list[tuple[int, str]], now: int
) -> None:
    if (found := judged(mine, others, now)) is None:
        return
    probe_report, judgement = found
    verdict_event = max(
        (when for when, what in others if what == "ok"), default=now + 11
    )  # a report shows its newest only
    alive = [when for when in (verdict_event, *(at for at, what in mine if what == "ok")) if when <= now + 10]
    against = [when for when, what in mine if what in ("refused", "silent") and when > max(alive, default=-1)]
    if judgement.verdict is Verdict.DOWN:
        assert len(against) >= DETECTION.failures
        assert max(when for when, _ in mine) in against, "and the newest look is one of them"
    if any(what == "credential" for when, what in mine if when >= max(when for when, _ in mine)):
        assert judgement.verdict in (Verdict.CONFIG_ERROR, Verdict.UNKNOWN)
    if probe_report.fault is None:
        assert judgement.verdict in (Verdict.UP, Verdict.SUSPECT, Verdict.UNKNOWN)


@given(LOOKS, LOOKS, st.integers(0, 130))
def test_an_observer_that_never_saw_it_alive_changes_no_verdict(
    mine: list[tuple[int, str]], others: list[tuple[int, str]], now: int
) -> None:
    blind = [(when, what) for when, what in others if what != "ok"]
    with_them, alone = judged(mine, blind, now), judged(mine, [], now)
    if with_them is not None and alone is not None:
        assert with_them[1].verdict is alone[1].verdict


@given(LOOKS, LOOKS, st.integers(0, 130))
def test_fresh_evidence_of_another_never_makes_things_worse(
    mine: list[tuple[int, str]], others: list[tuple[int, str]], now: int
) -> None:
    before, after = judged(mine, others, now), judged(mine, [*others, (101, "ok")], now)
    if before is not None and after is not None and now >= 101:
        assert after[1].verdict is not Verdict.DOWN


# -- in real time, at any phase --------------------------------------------------------------------------------------
PHASES = st.floats(0.0, 0.49).map(lambda each: round(each, 2))
DELAYS = st.lists(st.floats(0.0, 0.5).map(lambda each: round(each, 2)), min_size=1, max_size=4)
TROUBLE = st.sampled_from(("refused", "refused", "silent"))


@st.composite
def replicators(draw: st.DrawFn) -> Replicator:
    """Heartbeats every second, on their way for up to half a second, each as long as it likes."""
    delays = draw(DELAYS)
    return Replicator(
        phase=2 * draw(PHASES), read_phase=draw(PHASES), skew=draw(st.sampled_from((0.0, 0.0, -0.5, -1.0, -2.0, 2.0))),
        delay=lambda number: delays[number % len(delays)],
    )  # fmt: skip


@st.composite
def runners(draw: st.DrawFn) -> Runner:
    """Looks that take up to a second and reports that take up to half of one."""
    return Runner(phase=draw(PHASES), look=0.01 + 1.8 * draw(PHASES), way=draw(PHASES))


@settings(max_examples=tries(40), deadline=None)
@given(PHASES, TROUBLE, replicators())
def test_while_heartbeats_arrive_a_cluster_is_never_down(phase: float, trouble: str, beats: Replicator) -> None:
    assert Course(until=5.0, phase=phase, trouble=trouble, replicator=beats).down is None


@settings(max_examples=tries(40), deadline=None)
@given(PHASES, TROUBLE, runners())
def test_while_a_runner_sees_it_a_cluster_is_never_down(phase: float, trouble: str, runner: Runner) -> None:
    assert Course(until=5.0, phase=phase, trouble=trouble, runner=runner).down is None


@settings(max_examples=tries(20), deadline=None)
@given(PHASES, PHASES, st.floats(2.5, 4.0))
def test_a_witness_that_misses_two_probes_in_a_cut_does_not_mean_down(phase: float, other: float, when: float) -> None:
    runner = Runner(phase=other, way=0.1, misses=lambda began: when <= began < when + 1.0)
    assert Course(until=8.0, phase=phase, runner=runner).down is None


@settings(max_examples=tries(40), deadline=None)
@given(PHASES, TROUBLE, replicators(), runners())
def test_a_cluster_that_dies_for_all_is_down_in_time(
    phase: float, trouble: str, beats: Replicator, runner: Runner
) -> None:
    """The last heartbeat is read a second after it was written at the latest, and waited for 2 s at the most: its
    usual gap and half a second."""
    runner = replace(runner, look=min(runner.look, 0.2), way=min(runner.way, 0.2), dies=0.0 if phase < 0.1 else None)
    beats = replace(
        beats, skew=min(beats.skew, 0.0)
    )  # one that is ahead may seem to be written after the first failure
    down = Course(until=4.0, dies=0.0, phase=phase, trouble=trouble, replicator=beats, runner=runner).down
    assert down is not None
    assert down <= 3.1
    alone = Course(until=4.0, dies=0.0, phase=phase, trouble=trouble, runner=replace(runner, dies=None)).down
    limit = DETECTION.after_kill if trouble == "refused" else DETECTION.after_freeze
    assert alone is not None
    assert alone <= limit.total_seconds() + 0.1, "a runner that fails, too, delays nothing"


@settings(max_examples=tries(20), deadline=None)
@given(PHASES, TROUBLE, replicators(), st.floats(0.5, 4.0))
def test_a_cluster_whose_heartbeats_stop_in_a_long_cut_is_down_in_time(
    phase: float, trouble: str, beats: Replicator, stops: float
) -> None:
    beats = replace(beats, stops=stops)
    down = Course(until=stops + 6.5, phase=phase, trouble=trouble, replicator=beats).down
    assert down is not None
    assert stops - 1.0 < down <= stops + 3.0 + stale_after(DETECTION).total_seconds() + 0.1


def test_the_numbers_of_detection_follow_from_its_settings() -> None:
    assert (DETECTION.after_kill.total_seconds(), DETECTION.after_freeze.total_seconds()) == (1.5, 2.5)
    slow = Detection.model_validate({"interval": "2s", "timeout": "5s", "failures": 4})
    assert (slow.after_kill.total_seconds(), slow.after_freeze.total_seconds()) == (8.0, 13.0)
    assert stale_after(slow).total_seconds() == 10.0
    for wrong in ({"interval": 0}, {"timeout": "0s"}, {"failures": 0}, {"timeout": "2m"}):
        with pytest.raises(ValueError):
            Detection.model_validate(wrong)


def test_more_failures_are_needed_where_the_settings_say_so() -> None:
    patient = DETECTION.model_copy(update={"failures": 5})
    mine = seen(window(*row("refused@0 refused@0.5 refused@1 refused@1.5"), trusted=5))
    assert judge_cluster(mine, [], at(1.6), patient).verdict is Verdict.SUSPECT
    assert mine is not None
    five = replace(mine, failed_at=(*mine.failed_at, at(2)), seen_at=at(2), failures_in_a_row=5)
    assert judge_cluster(five, [], at(2.1), patient).verdict is Verdict.DOWN
