"""Whole test runs at random moments: the same promise that the demo makes, asserted. Many: ``tests/long``.

A freeze with a typed failover is reported by ``test_failback.py`` every time, with the way home behind it.
"""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from lab.demo import judge
from lab.scenario import Script, play_script
from tests.ports import free_base_port
from tests.world import RATE_BESIDE_OTHERS

pytestmark = pytest.mark.real


@pytest.mark.long
def test_a_carry_typed_at_a_random_moment_of_a_freeze_is_exact(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    script = Script.at_random(seed, fault="freeze", base_port=free_base_port(), wait_warm=False)
    played = play_script(script, tmp_path, print)
    assert judge(played) == []
    assert all(row["delivered"] for row in played.verdict.values())


def test_the_controller_moves_every_query_at_a_random_moment_of_a_kill(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    drawn = Script.at_random(seed, fault="kill", base_port=free_base_port(), wait_warm=False)
    played = play_script(replace(drawn, automatic=True, rate=RATE_BESIDE_OTHERS), tmp_path, print)
    assert judge(played) == []
    assert {operation["actor"] for operation in played.operations} == {"auto"}
    assert all(operation["measured"]["detect_seconds"] is not None for operation in played.operations)
    kinds = [event["kind"] for event in played.events]
    assert kinds.index("verdict") < kinds.index("hold")
