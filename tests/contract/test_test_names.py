"""A test's name is a short sentence that makes sense alone: it is all that a failing run shows at first."""

import re
from pathlib import Path

LONGEST = 72
TESTS = Path(__file__).parents[1]


def test_the_name_of_a_test_is_short_and_begins_with_its_subject() -> None:
    names = {
        name
        for path in TESTS.rglob("*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(names) > 2_000
    assert {name for name in names if len(name) > LONGEST or name.startswith("test_what_")} == set()
