"""A few whole stories at random moments: the same promise that the demo makes, asserted."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from lab.demo import judge
from lab.rehearsal import Fault, Script, tell
from tests.ports import free_base_port

pytestmark = pytest.mark.real


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_a_carry_at_a_random_moment_loses_nothing_and_repeats_nothing(fault: Fault, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    script = Script.at_random(seed, fault=fault, base_port=free_base_port(), wait_warm=False)
    story = tell(script, tmp_path, print)
    assert judge(story) == []
    assert all(row["delivered"] for row in story.verdict.values())


def test_nobody_types_anything_and_the_controller_moves_every_query(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    drawn = Script.at_random(seed, fault="kill", base_port=free_base_port(), wait_warm=False)
    story = tell(replace(drawn, automatic=True), tmp_path, print)
    assert judge(story) == []
    assert {operation["actor"] for operation in story.operations} == {"auto"}
    assert all(operation["measured"]["detect_seconds"] is not None for operation in story.operations)
    kinds = [event["kind"] for event in story.events]
    assert kinds.index("verdict") < kinds.index("hold")
