"""When an order that failed is given up: by the kinds of all its failures, and by whether there is patience."""

from datetime import timedelta

import pytest

from orchestrator.decide.operation.intents import TRIES, pursue
from state.messages import Failure
from state.model.entities import IntentKind, Phase
from tests.contract import samples
from tests.unit.orchestrator.decide.operation.test_step import at, intent_of

AFTER_ANY_PAUSE = samples.AT + timedelta(hours=1)


@pytest.mark.parametrize(
    ("kinds", "patient", "given_up"),
    [
        (("file-system",) * 9, True, False),
        (("file-system",) * (TRIES - 1), False, False),
        (("file-system",) * TRIES, False, True),
        (("internal",) * (TRIES - 1), True, False),
        (("internal",) * TRIES, True, True),
        (("file-system",) * TRIES + ("internal",), True, False),
        (("internal",) * TRIES + ("file-system",), True, False),
        (("no-space",), True, True),
    ],
)
def test_an_order_is_given_up_by_the_kinds_of_its_failures(
    kinds: tuple[str, ...], patient: bool, given_up: bool
) -> None:
    intents = [
        intent_of(IntentKind.FENCE, Failure(kind=kind, text="it failed"), number=number)
        for number, kind in enumerate(kinds, 1)
    ]
    snapshot = at(Phase.FENCING, *intents, patient=patient)
    decided = pursue(snapshot, intents[-1], "to stop the query", intents[-1].request, AFTER_ANY_PAUSE)
    assert (decided is None) is given_up
