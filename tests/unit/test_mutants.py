"""The mutants that `make mutants` draws: one mistake each, in program text that still compiles."""

import ast
import random

import pytest

from tests.mutants.__main__ import ROOT, drawn
from tests.mutants.areas import AREAS
from tests.mutants.catalogue import CATALOGUE, Mistake
from tests.mutants.explained import EXPLAINED
from tests.mutants.mutate import mutants

TEXT = '''
"""Not this: 1 < 2."""
LIMIT = 3


class Door:
    def opens(self, key: int = 4) -> bool:
        """Nor this."""
        log.info("asked", key=key)
        if not (key > LIMIT and self.locked):
            self.ring(f"{1 + 1} times")
            return True
        return min(key, 7) + 1 == key
'''


def test_each_operator_makes_its_mistake_and_texts_for_people_stay() -> None:
    made = {(each.function, each.old, each.new) for each in mutants("door.py", TEXT)}
    assert made == {
        ("Door.opens", "4", "5"),
        ("Door.opens", "not (key > LIMIT and self.locked)", "False"),
        ("Door.opens", "not ", ""),
        ("Door.opens", ">", ">="),
        ("Door.opens", "and", "or"),
        ("Door.opens", 'self.ring(f"{1 + 1} times")', "..."),
        ("Door.opens", "True", "False"),
        ("Door.opens", "min", "max"),
        ("Door.opens", "7", "8"),
        ("Door.opens", "+", "-"),
        ("Door.opens", "1", "2"),
        ("Door.opens", "==", "!="),
    }


def test_every_mutant_of_the_program_compiles_and_has_a_key_of_its_own() -> None:
    chance, keys = random.Random(5), set()
    for area in AREAS:
        for pattern in area.modules:
            for path in sorted(ROOT.glob(pattern)):
                text = path.read_text(encoding="utf-8")
                made = mutants(str(path.relative_to(ROOT)), text)
                keys |= {each.key for each in made}
                assert len({each.key for each in made}) == len(made)
                for mutant in chance.sample(made, min(4, len(made))):
                    ast.parse(mutant.applied(text))
                    assert mutant.applied(text) != text
    assert keys >= EXPLAINED.keys(), "what is explained is still a mutant of the program"


def test_a_seed_draws_the_same_mutants_again_from_every_area() -> None:
    first, again, other = drawn(1, 66, None), drawn(1, 66, None), drawn(2, 66, None)
    assert first == again != other
    assert len(first) == 66
    assert {each.tests for each in first} == {area.tests for area in AREAS}


@pytest.mark.parametrize("mistake", CATALOGUE, ids=lambda mistake: mistake.why)
def test_the_catalogue_fits_the_program(mistake: Mistake) -> None:
    assert mistake.old in (ROOT / mistake.module).read_text(encoding="utf-8"), (
        "correct it in tests/mutants/catalogue.py"
    )
    assert all((ROOT / test).exists() for test in mistake.tests)
