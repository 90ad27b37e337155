"""How a driver is named to its cluster manager."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streaming.spark.attach.driver import _application_id

APPLICATION = "application_1700000000000_0007"


@pytest.mark.parametrize(("attempt", "named"), [(None, APPLICATION), ("2", "appattempt_1700000000000_0007_000002")])
def test_an_attempt_on_yarn_is_named_as_a_driver_of_its_own(attempt: str | None, named: str) -> None:
    option = SimpleNamespace(isDefined=lambda: attempt is not None, get=lambda: attempt)
    context = SimpleNamespace(applicationId=lambda: APPLICATION, applicationAttemptId=lambda: option)
    assert _application_id(cast(Any, context)) == named
