"""The table of phases: complete, without dead ends, and the source of its own diagram."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.phases import (
    BEFORE_COMMIT,
    BEHIND_COMMIT,
    FINAL,
    MEANING,
    TABLE,
    IllegalMove,
    Trigger,
    diagram,
    meanings,
    move,
)
from state.model.entities import Phase


def reachable(start: Phase) -> set[Phase]:
    found, grown = {start}, True
    while grown:
        more = {after for (phase, _), after in TABLE.items() if phase in found} - found
        grown, found = bool(more), found | more
    return found


def test_every_phase_is_reachable() -> None:
    assert reachable(Phase.WATCHING) == set(Phase)


def test_every_phase_that_is_not_final_has_an_exit_and_leads_to_an_end() -> None:
    for phase in set(Phase) - FINAL:
        assert any(p == phase and after != phase for (p, _), after in TABLE.items()), phase
        assert reachable(phase) & FINAL, phase


@pytest.mark.parametrize(("phase", "trigger"), list(itertools.product(Phase, Trigger)))
def test_every_pair_is_listed_or_refused(phase: Phase, trigger: Trigger) -> None:
    if (phase, trigger) in TABLE:
        assert move(phase, trigger) is TABLE[phase, trigger]
    else:
        with pytest.raises(IllegalMove, match=f"{phase} does not know '{trigger.value}'"):
            move(phase, trigger)


def test_no_way_leads_back_from_behind_the_commit() -> None:
    behind = reachable(Phase.STARTING)
    assert behind == BEHIND_COMMIT
    assert Phase.ABORTED not in behind


def test_only_phases_before_the_commit_can_be_given_up() -> None:
    assert {phase for phase, trigger in TABLE if trigger is Trigger.GIVEN_UP} == BEFORE_COMMIT


def test_a_landing_that_is_never_proven_has_an_end_too() -> None:
    for phase in (Phase.STARTING, Phase.VERIFYING):
        assert move(phase, Trigger.UNVERIFIED) is Phase.SETTLED
        assert move(phase, Trigger.RUNNER_LOST) is Phase.STARTING


def test_every_happening_moves_something() -> None:
    assert {trigger for _, trigger in TABLE} == set(Trigger)


@given(st.lists(st.sampled_from(Trigger), max_size=40))
def test_no_operation_leaves_the_table_of_phases_or_undoes_its_commit(triggers: list[Trigger]) -> None:
    """Whatever happens in whatever order: what the table does not list changes nothing, and the commit is for good."""
    phase, committed = Phase.WATCHING, False
    for trigger in triggers:
        if (phase, trigger) in TABLE:
            phase = move(phase, trigger)
        else:
            with pytest.raises(IllegalMove):
                move(phase, trigger)
        committed = committed or phase is Phase.STARTING
        assert not committed or phase in BEHIND_COMMIT
        assert reachable(phase) & FINAL


def test_nothing_leaves_a_final_phase() -> None:
    assert {after for (phase, _), after in TABLE.items() if phase in FINAL} <= FINAL
    assert not [phase for phase, _ in TABLE if phase is Phase.SETTLED]


def test_the_diagram_shows_every_move_between_phases() -> None:
    text = diagram()
    assert text.startswith("stateDiagram-v2\n")
    for (phase, trigger), after in TABLE.items():
        assert (f"    {phase} --> {after}: {trigger.value}\n" in text) is (phase != after)


def test_every_phase_has_a_meaning_of_its_own() -> None:
    assert set(MEANING) == set(Phase)
    assert len(set(MEANING.values())) == len(Phase)
    assert [line.split(" | ")[0] for line in meanings().splitlines()[2:]] == [f"| {phase}" for phase in Phase]
