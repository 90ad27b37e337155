"""The pause of a switchover and the cost of a drill, as the bench reads them off a checkpoint."""

import os
from pathlib import Path

import pytest

from bench import drill, light, state, switchover, switchover_four


def write(checkpoint: Path, log: str, batch: int, at: float, end: int = 0) -> None:
    path = checkpoint / log / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{batch}}}\n{{"orders":{{"0":{end}}}}}'
    path.write_text(entry if log == "offsets" else 'v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")
    os.utime(path, (at, at))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 7, 8 without data, and 9; each a second, a tenth of it to plan it."""
    for batch, end in ((6, 100), (7, 200), (8, 200), (9, 300)):
        write(tmp_path, "offsets", batch, 1000.0 + batch + 0.1, end)
        write(tmp_path, "commits", batch, 1001.0 + batch)
    (tmp_path / "commits" / ".9.crc").touch()
    return tmp_path


def test_the_first_batch_with_data_ends_a_pause(checkpoint: Path) -> None:
    assert switchover.first_data(checkpoint, after=6) == 1008.0
    assert switchover.first_data(checkpoint, after=7) == 1010.0, "batch 8 is empty"
    assert switchover.first_data(checkpoint, after=9) is None


def test_a_commit_before_the_restart_does_not_end_it(checkpoint: Path) -> None:
    assert switchover.first_data(checkpoint, after=-1, since=1008.5) == 1010.0


def test_the_newest_gaps_between_commits_are_measured(checkpoint: Path) -> None:
    write(checkpoint, "commits", 10, 1012.5)
    assert switchover.gaps(checkpoint, 3) == [1.0, 2.5]
    assert switchover.gaps(checkpoint, 1) == []


def test_the_figure_to_reach_is_a_multiple_of_what_is_measured_beside() -> None:
    taken = switchover.Taken(pauses=[1.4, 1.6, 9.0], restarts=[1.0, 2.0, 0.5], ordinary=[2.0])
    carried, switched = (switchover.row("s", "one query", taken, goes_on=goes_on) for goes_on in (False, True))
    assert carried.limit == pytest.approx(1.5)
    assert carried.met is False
    assert switched.limit == pytest.approx(2.5)
    assert switched.met is True
    assert switchover.row("switchover", "one query", switchover.Taken(pauses=[1.4]), goes_on=True).met is None


def test_the_shortest_and_the_longest_pause_of_a_round_are_reported() -> None:
    taken = switchover.Taken(
        pauses=[1.0, 3.0, 2.0, 5.0, 4.0, 6.0], restarts=[0.5] * 6, ordinary=[1.0, 2.0, 3.0, 4.0], queries=3
    )
    shortest = switchover_four.shortest("s", "three", taken, goes_on=True)
    longest = switchover_four.longest("s", "three", taken, goes_on=True)
    assert shortest.ours is not None
    assert longest.ours is not None
    assert (shortest.ours.least, shortest.ours.most) == (1.0, 4.0)
    assert (longest.ours.least, longest.ours.most) == (3.0, 6.0)
    assert (shortest.limit, longest.limit) == (pytest.approx(2.5), pytest.approx(3.75))


def test_a_batch_lasts_from_its_plan_to_its_commit(checkpoint: Path) -> None:
    assert light.durations(checkpoint, 2) == pytest.approx([0.9, 0.9])
    (checkpoint / "offsets" / "8").unlink()
    assert light.durations(checkpoint, 2) == pytest.approx([0.9])


def test_much_state_is_held_against_little_or_against_a_restart() -> None:
    little = switchover.Taken(pauses=[1.0], restarts=[0.5], ordinary=[1.0])
    much = switchover.Taken(pauses=[1.3], restarts=[8.0], ordinary=[1.0])
    switched, carried = (state.rows(resume, "5 MB", little, "5 GB", much) for resume in state.RESUMES)
    assert [each.limit for each in switched] == [None, pytest.approx(1.2)]
    assert [each.met for each in switched] == [None, False]
    assert [each.limit for each in carried] == [None, pytest.approx(12.0)]
    assert carried[1].met is True


def test_batches_belong_to_the_while_in_which_they_began(checkpoint: Path) -> None:
    assert drill.batches(checkpoint, 1007.0, 1009.0) == pytest.approx([900.0, 900.0])
    (checkpoint / "commits" / "8").unlink()
    assert drill.batches(checkpoint, 1007.0, 1009.0) == pytest.approx([900.0]), "one that is under way has no end"


def test_the_cost_of_a_drill_is_reported_pair_by_pair() -> None:
    taken = drill.Taken(without=[[100.0, 100.0, 400.0], [200.0], []], with_it=[[110.0], [190.0], [7.0]], seconds=[4.0])
    median, longest = drill.rows(taken)
    assert median.ours is not None
    assert median.ours.samples == pytest.approx((10.0, -5.0)), "a while without a batch has no pair"
    assert (median.limit, median.met) == (5.0, True)
    assert longest.ours is not None
    assert longest.ours.samples == pytest.approx((-72.5, -5.0))
