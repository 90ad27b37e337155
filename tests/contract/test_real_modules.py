"""What only a slow machine runs can be run: a name that was changed is missed here, and not half an hour later."""

from importlib import import_module

import pytest

from tests.contract.test_imports import ROOT
from tests.real.conftest import LONGEST

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("real", "long", "alignment")
    for path in sorted((ROOT / "tests" / folder).glob("*.py"))
]


@pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")  # in another order than a test run has
@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_slow_tests_can_be_imported(module: str) -> None:
    import_module(module)


def test_the_longest_files_of_real_tests_are_there() -> None:
    assert {f"tests.real.test_{name}" for name in LONGEST} <= {*MODULES}
