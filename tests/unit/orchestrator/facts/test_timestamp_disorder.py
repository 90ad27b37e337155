"""How far times went back, from the steps of a timeline: within a step, between steps, and across stretches."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.facts.timestamp_disorder import SINCE, Seen, measure_disorder
from state.model.maintenance import TopicDisorder
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch
from tests.contract.samples import AT
from tests.memory_store import MemoryStore
from tests.unit.orchestrator.decide.gates.test_checks import ASSIGNMENT

MINUTE = timedelta(minutes=1)
AT_MS = int(AT.timestamp()) * 1000
ONE, TWO, OTHER = SourcePartition("s", "t", 0), SourcePartition("s", "t", 1), SourcePartition("s", "u", 0)


def steps(*of: tuple[int, int, int], begin: int = 1_000) -> list[Moment]:
    """One lane, a step every 1000 ms: offset, largest time, and how far the last one lies before it."""
    return [Moment(begin + 1_000 * n, [offset], [time], [drop]) for n, (offset, time, drop) in enumerate(of)]


def seen(*stretches: list[Moment], precision_ms: int = 0) -> TopicDisorder:
    found = Seen()
    for moments in stretches:
        found.add([ONE], moments, precision_ms=precision_ms)
    (topic,) = found.topics()
    return topic


@pytest.mark.parametrize(
    ("moments", "disorder_ms", "counted"),
    [
        (steps((10, 500, 0), (20, 900, 0), (30, 1_500, 0)), 0, 2),
        (steps((10, 500, 40), (20, 900, 0)), 40, 1),
        (steps((10, 900, 0), (20, 600, 0)), 300, 1),
        (steps((10, 900, 0), (20, 800, 250)), 350, 1),
        (steps((10, 900, 0), (20, NO_TIME, 0), (30, 850, 0)), 50, 1),
        (steps((10, 900, 0), (10, 900, 0), (10, 900, 0)), 0, 0),
        (steps((10, 9_000_000, 0), (20, 900, 0)), 100, 1),  # ahead of the clock, which is at 1000 then
    ],
)
def test_disorder_is_the_way_back_from_the_largest_time_so_far(
    moments: list[Moment], disorder_ms: int, counted: int
) -> None:
    found = seen(moments)
    assert (found.disorder_ms, found.steps) == (disorder_ms, counted)


def test_a_stretch_begins_where_the_one_before_it_ended() -> None:
    found = seen(steps((10, 900, 0)), steps((20, 300, 0), (30, 950, 0), begin=5_000))
    assert found == TopicDisorder("t", 600, 2, 5_000, 6_000)


def test_the_precision_of_times_is_added_to_the_disorder() -> None:
    assert seen(steps((10, 900, 0), (20, 600, 0)), precision_ms=100).disorder_ms == 400
    assert seen(steps((10, NO_TIME, 0), (20, NO_TIME, 0)), precision_ms=100).disorder_ms == 0


def test_partitions_of_a_topic_count_together_and_topics_apart() -> None:
    found = Seen()
    moments = [
        Moment(1_000, [1, 1, 1], [900, 800, 700], [0, 0, 0]),
        Moment(2_000, [2, 2, 1], [950, 300, 700], [0, 0, 0]),
    ]
    found.add([ONE, TWO, OTHER], moments, precision_ms=0)
    assert found.topics() == (TopicDisorder("t", 500, 1, 2_000, 2_000), TopicDisorder("u", 0, 0, 1_000, 1_000))


def stretch(ago: timedelta, *, epoch: int = 1, cluster: str = "east", back_ms: int = 0) -> Stretch:
    begin = AT_MS - ago // timedelta(milliseconds=1)
    moments = [Moment(begin + 60_000 * n, [n], [begin + 60_000 * n - back_ms * (n == 1)], [0]) for n in range(3)]
    return Stretch.of("q", epoch, cluster, [ONE], moments, precision_ms=100)


def measured(*stretches: Stretch, placed_epoch: int = 1) -> list[tuple[int, int]]:
    store = MemoryStore(clock=lambda: AT)
    for each in stretches:
        store.save_timeline(each, keep=timedelta(days=7))
    found = measure_disorder(store, replace(ASSIGNMENT, placed_epoch=placed_epoch), AT)
    assert (found.query, found.cluster, found.placed_epoch, found.measured_at) == ("q", "east", placed_epoch, AT)
    return [(topic.disorder_ms, topic.steps) for topic in found.topics]


HOUR = timedelta(hours=1)
OLDER, NEWER = stretch(2 * HOUR, back_ms=90_000), stretch(HOUR, back_ms=70_000)


@pytest.mark.parametrize(
    ("stretches", "found"),
    [
        ((), []),
        ((NEWER,), [(10_100, 2)]),
        ((OLDER, NEWER), [(30_100, 5)]),
        ((stretch(SINCE + HOUR, back_ms=90_000), NEWER), [(10_100, 2)]),
        ((stretch(3 * HOUR, back_ms=90_000), stretch(2 * HOUR, cluster="west"), NEWER), [(10_100, 2)]),
    ],
    ids=["nothing", "one", "two", "of a day before", "before another cluster"],
)
def test_disorder_since_the_query_was_placed_counts_for_a_day(
    stretches: tuple[Stretch, ...], found: list[tuple[int, int]]
) -> None:
    assert measured(*stretches) == found


def test_disorder_from_before_the_query_was_placed_does_not_count() -> None:
    assert measured(OLDER, stretch(HOUR, epoch=2, back_ms=70_000), placed_epoch=2) == [(10_100, 2)]


def test_disorder_before_an_unreadable_stretch_does_not_count() -> None:
    broken = replace(stretch(90 * MINUTE), packed=b"nothing")
    assert measured(OLDER, broken, NEWER) == [(10_100, 2)]


def test_only_so_much_of_the_newest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.facts.timestamp_disorder.MOST_BYTES", len(NEWER.packed))
    assert measured(OLDER, NEWER) == [(10_100, 2)]
