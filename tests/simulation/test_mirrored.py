"""A mirror that was stopped: a query never resumes behind what producers have written there since."""

import pytest

from state.model.entities import Operation
from streaming.probe import mirrors
from streaming.probe.mirrors import MirrorState
from tests.simulation.control import controller
from tests.simulation.test_identity import place, requested
from tests.simulation.world import World, settings

LINK = {"kind": "cluster-linking", "url": "https://west.example/links/dr"}
LACKING = 7
END = 33 + 100 - LACKING
ROUTES = [{"from": "east", "to": "west", "keeps_offsets": True, "replicator": LINK}, {"from": "west", "to": "east"}]


def resumed(operation: Operation) -> dict[int, int | None]:
    """By partition, the resume offset of the plan."""
    assert operation.plan is not None
    return {each.partition: each.target_offset for each in operation.plan.partitions}


def moved(monkeypatch: pytest.MonkeyPatch, ends: dict[int, int]) -> tuple[World, Operation]:
    """A failover behind a mirror that was stopped, of which the replicator reports these ends."""
    answer = {"orders": MirrorState("STOPPED", True, ends)}
    monkeypatch.setattr(mirrors, "mirror_states", lambda *_, **__: answer)
    world = World(settings(groups={"routes": ROUTES}))
    operation = requested(world, controller(world))
    assert isinstance(operation, Operation), operation
    return world, operation


def test_a_resume_offset_beyond_what_was_mirrored_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world, operation = moved(monkeypatch, {})
    assert (operation.outcome, place(world)) == ("done", "west")
    first = resumed(operation)[0]
    assert first is not None
    world, operation = moved(monkeypatch, {0: first})
    assert (operation.outcome, place(world)) == ("done", "west"), "at the end itself nothing is skipped"
    world, operation = moved(monkeypatch, {0: first - 1, 1: 0})
    assert (operation.outcome, place(world)) == ("refused", "east")
    said = f"not-beyond-mirrored: orders-0 would resume at {first}, and was mirrored up to {first - 1} only"
    assert operation.sentence.startswith(said)
    assert "--consent gap skips it" in operation.sentence
    assert world.checkpoints["/cp/revenue"].planted == set()


@pytest.mark.parametrize(("word", "later"), [("STOPPED", 0), (None, 2 * LACKING)])
def test_nothing_is_announced_behind_a_mirror_that_was_stopped(
    monkeypatch: pytest.MonkeyPatch, word: str | None, later: int
) -> None:
    """The mirror lacks records that were read; once it is stopped, no replicator brings them."""
    answer = None if word is None else {"orders": MirrorState(word, True, {})}
    monkeypatch.setattr(mirrors, "mirror_states", lambda *_, **__: answer)
    world = World(settings(groups={"routes": ROUTES}))
    world.clusters["west"].cut("orders", END)
    operation = requested(world, controller(world))
    assert isinstance(operation, Operation), operation
    assert operation.outcome == "done"
    assert operation.plan is not None
    totals = operation.plan.totals
    assert totals.replay_later_records == later
    assert totals.exposure_records is not None
    assert totals.exposure_records >= 2 * LACKING, "what is lacking stays exposed"
    assert bool(operation.plan.awaited) is bool(later)
