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
    Happening,
    IllegalMove,
    diagram,
    meanings,
    move,
)
from state.model import Phase


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


@pytest.mark.parametrize(("phase", "happening"), list(itertools.product(Phase, Happening)))
def test_every_pair_is_listed_or_refused(phase: Phase, happening: Happening) -> None:
    if (phase, happening) in TABLE:
        assert move(phase, happening) is TABLE[phase, happening]
    else:
        with pytest.raises(IllegalMove, match=f"{phase} does not know '{happening.value}'"):
            move(phase, happening)


def test_no_way_leads_back_from_behind_the_commit() -> None:
    behind = reachable(Phase.STARTING)
    assert behind == BEHIND_COMMIT
    assert Phase.ABORTED not in behind


def test_only_phases_before_the_commit_can_be_given_up() -> None:
    assert {phase for phase, happening in TABLE if happening is Happening.GIVEN_UP} == BEFORE_COMMIT


def test_a_landing_that_is_never_proven_has_an_end_too() -> None:
    for phase in (Phase.STARTING, Phase.VERIFYING):
        assert move(phase, Happening.UNVERIFIED) is Phase.SETTLED
        assert move(phase, Happening.RUNNER_LOST) is Phase.STARTING


def test_every_happening_moves_something() -> None:
    assert {happening for _, happening in TABLE} == set(Happening)


@given(st.lists(st.sampled_from(Happening), max_size=40))
def test_no_story_leaves_the_table_or_goes_back_behind_the_commit(story: list[Happening]) -> None:
    """Whatever happens in whatever order: what the table does not list changes nothing, and the commit is for good."""
    phase, committed = Phase.WATCHING, False
    for happening in story:
        if (phase, happening) in TABLE:
            phase = move(phase, happening)
        else:
            with pytest.raises(IllegalMove):
                move(phase, happening)
        committed = committed or phase is Phase.STARTING
        assert not committed or phase in BEHIND_COMMIT
        assert reachable(phase) & FINAL


def test_nothing_leaves_a_final_phase() -> None:
    assert {after for (phase, _), after in TABLE.items() if phase in FINAL} <= FINAL
    assert not [phase for phase, _ in TABLE if phase is Phase.SETTLED]


def test_the_diagram_shows_every_move_between_phases() -> None:
    text = diagram()
    assert text.startswith("stateDiagram-v2\n")
    for (phase, happening), after in TABLE.items():
        assert (f"    {phase} --> {after}: {happening.value}\n" in text) is (phase != after)


def test_every_phase_has_a_meaning_of_its_own() -> None:
    assert set(MEANING) == set(Phase)
    assert len(set(MEANING.values())) == len(Phase)
    assert [line.split(" | ")[0] for line in meanings().splitlines()[2:]] == [f"| {phase}" for phase in Phase]
