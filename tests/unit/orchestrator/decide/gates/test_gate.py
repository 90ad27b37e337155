"""Who a move belongs to: what is unknown is a person's risk, and never automatic mode's."""

import pytest

from orchestrator.decide.gates.gate import MOVE, is_attended
from state.model.automation import AUTOMATIC
from tests.contract import samples


@pytest.mark.parametrize(
    ("actor", "consents", "attended"),
    [("operator", (), True), (AUTOMATIC, (), False), (AUTOMATIC, ("loss",), False), (AUTOMATIC, (MOVE, "loss"), True)],
)
def test_a_move_is_attended_where_a_person_requested_it(actor: str, consents: tuple[str, ...], attended: bool) -> None:
    assert is_attended(samples.operation(actor=actor, consents=consents)) is attended
