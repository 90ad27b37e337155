"""What only a slow machine runs can be run: a name that was changed is missed here, and not half an hour later."""

from importlib import import_module

import pytest

from tests.contract.test_imports import ROOT
from tests.real.conftest import LONGEST
from tests.real.core import CORE

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


@pytest.mark.parametrize("promise", CORE)
def test_each_promise_has_a_test_on_real_parts_that_every_run_plays(promise: str) -> None:
    file, _, name = CORE[promise].partition("::")
    name, _, case = name.partition("[")
    module = import_module(f"tests.real.{file.removesuffix('.py')}")
    test = getattr(module, name)
    marks = [*(module.pytestmark if isinstance(module.pytestmark, list) else [module.pytestmark])]
    marks += getattr(test, "pytestmark", [])
    assert "real" in {mark.name for mark in marks}
    assert "long" not in {mark.name for mark in marks}
    assert bool(case) <= ("parametrize" in {mark.name for mark in marks})
