"""Two whole stories at random moments: the same promise that the demo makes, asserted. Many: ``tests/long``."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from lab.demo import judge
from lab.rehearsal import Script, tell
from tests.ports import free_base_port

pytestmark = pytest.mark.real


def test_a_carry_that_is_typed_at_a_random_moment_of_a_freeze_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    script = Script.at_random(seed, fault="freeze", base_port=free_base_port(), wait_warm=False)
    story = tell(script, tmp_path, print)
    assert judge(story) == []
    assert all(row["delivered"] for row in story.verdict.values())


def test_nobody_types_anything_at_a_random_moment_of_a_kill_and_the_controller_moves_every_query(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    drawn = Script.at_random(seed, fault="kill", base_port=free_base_port(), wait_warm=False)
    story = tell(replace(drawn, automatic=True), tmp_path, print)
    assert judge(story) == []
    assert {operation["actor"] for operation in story.operations} == {"auto"}
    assert all(operation["measured"]["detect_seconds"] is not None for operation in story.operations)
    kinds = [event["kind"] for event in story.events]
    assert kinds.index("verdict") < kinds.index("hold")
