"""The demo up to its kill, as the bench reckons it."""

from bench.demo import LIMIT_SECONDS, row, steps
from bench.report import STEPS

LINES = [
    (0.5, "two Kafka 4.3.1 clusters and MirrorMaker 2"),
    (8.0, "look at it: http://127.0.0.1:19110/"),
    (8.0, "runner a starts Spark, and in it all queries of the example"),
    (14.0, "runner a is up, with Spark 4.2.0"),
    (15.0, "started on east: archive, latest"),
    (16.0, "started on east: orders, revenue"),
    (22.0, "warmed up, in 2.0 s"),
    (23.0, "2,000 records/s to east"),
    (35.0, "kill east, under 2,000 records/s"),
    (38.0, "tideover failover --all --to west --yes"),
]


def test_the_steps_of_a_demo_end_with_their_last_line_and_add_up_to_the_kill() -> None:
    assert list(steps(LINES).values()) == [8.0, 6.0, 2.0, 6.0, 13.0]


def test_the_medians_of_the_steps_and_the_floor_stand_beside_the_whole() -> None:
    slow = [(2 * at, text) for at, text in LINES]
    found = row("once", [LINES, LINES, slow], [30.0, 20.0])
    assert (found.limit, found.met) == (LIMIT_SECONDS, True)
    assert found.ours is not None
    assert found.ours.samples == (35.0, 35.0, 70.0)
    assert [other.spread.median for other in found.others if other.spread] == [25.0]
    assert found.detail[STEPS] == {
        "two clusters, replicator": 8.0,
        "Spark session": 6.0,
        "start of four queries": 2.0,
        "their first batch, warm-up": 6.0,
        "load, batches, plan": 13.0,
    }
