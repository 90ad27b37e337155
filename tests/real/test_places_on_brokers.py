"""What a plan says of real standbys that are named, cut or filled otherwise than the cluster that died.

The records of one broker, and the copies that a replicator would have made of them on another, are written one by one.
Then the first broker is killed, and the standby may change still.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta

import pytest

from orchestrator.facts.timestamp_disorder import measure_disorder
from orchestrator.lease import NAME
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch
from tests.broker import running_broker
from tests.real.standbys import EACH, NOW, READ, SECONDS, SYNCS, T0_MS, Side, Stage

pytestmark = pytest.mark.real
MIXED = [number for begin in range(0, 2 * EACH, 16) for number in reversed(range(begin, begin + 16))]
"""Numbers of which each partition gets eight at a time the wrong way round: times go back by 14 s."""
DROPPED = 2 * (READ - 1)
"""The record right before the position in partition 0, which the replicator leaves out."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("places")
    with ExitStack() as west_lives, ExitStack() as east_lives, ThreadPoolExecutor() as pool:
        west = pool.submit(west_lives.enter_context, running_broker(folder / "west"))
        east = pool.submit(east_lives.enter_context, running_broker(folder / "east"))
        stage = Stage(folder, Side(east.result()), Side(west.result()))
        fill(stage.east, stage.west)
        query(stage)
        stage.track_before("deep", 280)
        stage.track()
        consume(stage)
        stage.aged = stage.say(
            "offsets", "--cluster", "east", "--topic", "behind", "--max-timestamp", "--compare", "west"
        )
        east_lives.close()  # the disaster
        outage(stage.west)
        yield stage
        stage.store.close()


def fill(east: Side, west: Side) -> None:
    """What the queries read, and what a replicator made of it."""
    for topic in ("copied", "shifted", "behind", "orders", "unnamed", "grown", "split", "outage", "lonely", "shop-a"):
        east.make(topic, 2, range(2 * EACH))
    east.make("joined", 3, range(3 * EACH))
    east.make("arcade-gone", 1, range(EACH))
    east.make("deep", 2, range(2 * 700))
    west.make("deep", 2, range(2 * 300), foreign=3)
    west.make("copied", 2, range(2 * EACH))
    west.make("shifted", 2, range(2 * EACH), foreign=3)
    west.make("behind", 2, range(2 * 25))
    west.make("east.orders", 2, range(2 * EACH), foreign=3)
    west.make("eu.orders.v1", 2, range(2 * EACH), foreign=5)
    west.make("grown", 4)
    west.write("grown", [(number % 2, number - 6) for number in range(2 * EACH + 6)])
    west.write("grown", [(2, number) for number in (-1, -2, -3, -4, -5, 1000, 1001)])
    west.delete("grown", 2, 5)
    west.make("split", 3, range(2 * EACH))
    west.make("joined", 2, range(3 * EACH))
    west.make("outage", 2, range(2 * EACH), foreign=3)
    west.make("east.shop-a", 2, range(2 * EACH), foreign=3)
    east.make("mixed", 2, MIXED)
    west.make("mixed", 2, range(2 * EACH), foreign=3)
    east.make("sieved", 2, range(2 * EACH))
    west.make("sieved", 2, (number for number in range(2 * EACH) if number != DROPPED), foreign=3)
    west.make(SYNCS, 1)
    west.note_syncs(("sieved", *sync) for sync in ((0, 0, 3), (1, 0, 3), (0, 28, 31), (1, READ, READ + 3), (0, 36, 38)))
    west.make("opened", 1, (0, 9, 4))
    west.make("unsorted", 1, (0, 9, 4))


def query(stage: Stage) -> None:
    """The queries, each for a world of its own."""
    for topic in ("copied", "shifted", "behind"):
        stage.query(topic, "copy", topic)
    stage.query("prefixed", "prefixed", "orders")
    stage.query("mapped", "mapped", "orders")
    stage.query("unnamed", "mapped", "orders", "unnamed")
    for topic in ("grown", "split", "joined", "outage"):
        stage.query(topic, "west", topic)
    stage.query("anew", "west", "joined", resume="fresh")
    stage.query("lonely", "west", "copied", "lonely")
    stage.query("shop", "prefixed", "shop-a", pattern="shop-.*")
    stage.query("arcade", "west", "arcade-gone", pattern="arcade-.*")
    stage.query("sieved", "synced", "sieved", methods=["synced"])
    stage.query("deep", "west", "deep")
    stage.ends["deep"] = {"orders": {"deep": {"0": 650, "1": 650}}}
    stage.query("mixed", "west", "mixed", methods=["timestamp"], buffer="measured")


def consume(stage: Stage) -> None:
    """The timeline of two hours in which ``mixed`` was read, a record at a time, as a controller measured it."""
    lanes, moments = [SourcePartition("orders", "mixed", number) for number in range(2)], []
    for step in range(2 * READ + 1):
        ends = [(step + 1) // 2, step // 2]
        read = [stage.east.held["mixed", number][max(0, end - 32) : end] for number, end in enumerate(ends)]
        tops = [T0_MS + max(each) * 1000 if each else NO_TIME for each in read]
        backs = [(max(each) - each[-1]) * 1000 if each else 0 for each in read]
        at_ms = int(NOW.timestamp()) * 1000 - (2 * READ - step) * 120_000
        moments.append(Moment(at_ms, ends, tops, backs))
    stretch = Stretch.of("mixed", 1, "east", lanes, moments, precision_ms=100)
    stage.store.save_timeline(stretch, keep=timedelta(days=1))
    assignment, lease = stage.store.assignment("mixed"), stage.store.lead(NAME, "one", timedelta(minutes=10))
    assert assignment is not None
    assert lease is not None
    stage.store.keep_disorder(measure_disorder(stage.store, assignment, NOW), term=lease.term)
    stage.store.resign(lease)


def outage(west: Side) -> None:
    """What is done to the standby while the other cluster is gone."""
    west.widen("outage", 3)
    west.write("outage", [(2, number) for number in range(2000, 2010)])
    west.make("east.shop-new", 1, range(3000, 3010), foreign=2)
    west.delete("east.shop-new", 0, 2)
    west.make("shop-stranger", 1, range(4000, 4010))


def test_a_standby_that_copies_bytes_is_resumed_at_the_same_offset(stage: Stage) -> None:
    plan = stage.plan("copied")
    assert plan.places == {"copied": [(READ, "identity", 0)] * 2}
    assert (plan.refusals, plan.notes) == ({}, ["", ""])


def test_a_route_that_is_wrongly_said_to_keep_offsets_is_resumed_by_content(stage: Stage) -> None:
    plan = stage.plan("shifted")
    assert plan.places == {"shifted": [(READ + 3, "exact", 0)] * 2}
    assert all(note.startswith("the same offset is not proven: the standby does not hold") for note in plan.notes)


def test_a_copy_of_bytes_that_lags_is_resumed_at_its_end(stage: Stage) -> None:
    plan = stage.plan("behind")
    assert plan.places == {"behind": [(25, "identity", 0)] * 2}
    totals = plan.value["totals"]
    assert (totals["replay_later_records"], totals["exposure_records"]) == (2 * 5, 2 * 15)
    assert totals["exposure_seconds"] == 30.0
    assert plan.notes == ["the standby lags: it ends 5 offsets before the position"] * 2


def test_a_lag_beyond_what_is_remembered_is_bounded_by_an_older_batch(stage: Stage) -> None:
    """350 records that were read, and 50 more, are not on the standby; 256 are remembered, and those before 280."""
    plan = stage.plan("deep")
    assert plan.places == {"deep": [(303, "exact", 0)] * 2}
    totals = plan.value["totals"]
    assert (totals["replay_later_records"], totals["exposure_records"]) == (None, None)
    most = totals["at_most"]
    assert most["exposure_records"] == 2 * 400
    assert 2 * 350 <= most["replay_later_records"] <= 2 * 370
    assert all("by the records read up to offset 280" in note for note in plan.notes)


def test_a_measured_buffer_covers_the_disorder_and_skips_no_unread_record(
    stage: Stage,
) -> None:
    plan = stage.plan("mixed")
    (buffer,) = plan.value["buffers"]
    assert (
        buffer["text"] == "24.1 s measured: timestamps up to 14.1 s out of order in 1.97 h over 60 steps, margin 10 s"
    )
    newest, unread = (T0_MS + number * 1000 for number in (62, 48))
    assert stage.east.held["mixed", 0][READ:][:2] == [50, 48], "unread, and older than what was read"
    assert unread < newest - 10_000, "a margin alone would not reach back so far"
    assert [(offset, method) for offset, method, _ in plan.places["mixed"]] == [(3 + 19, "timestamp")] * 2
    assert plan.refusals == {}


def test_plan_and_lookup_find_a_prefixed_topic_by_its_name_there(stage: Stage) -> None:
    plan = stage.plan("prefixed")
    assert plan.places == {"east.orders": [(READ + 3, "exact", 0)] * 2}
    assert plan.value["starting_offsets"] == {"east.orders": {"0": READ + 3, "1": READ + 3}}
    unread = T0_MS + 2 * READ * 1000
    code, rows = stage.say("offsets", "--cluster", "prefixed", "--topic", "east.orders", "--at", str(unread))
    assert (code, [row["offset"] for row in rows]) == (0, [READ + 3] * 2)


def test_a_mapped_topic_is_found_under_its_name_there(stage: Stage) -> None:
    plan = stage.plan("mapped")
    assert plan.places == {"eu.orders.v1": [(READ + 5, "exact", 0)] * 2}
    assert plan.refusals == {}


def test_a_topic_that_the_map_does_not_name_is_refused_by_name(stage: Stage) -> None:
    refused = stage.plan("unnamed").refusals
    assert refused["route-declared"].startswith("the route has no topic unnamed")


def test_added_partitions_begin_at_their_begin_and_leave_old_ones_exact(stage: Stage) -> None:
    plan = stage.plan("grown")
    assert plan.places == {"grown": [(READ + 3, "exact", 0)] * 2 + [(5, "exact", 0), (0, "exact", 0)]}
    text = "the standby has deleted records from where grown-2 would resume; --consent gap accepts the loss"
    assert plan.refusals == {"retention": text}, "its first five records are gone, and nobody has read them"
    assert stage.plan("grown", "gap").refusals == {}
    assert plan.text("partitions-match") == "every partition continues in the one of the same number"


def test_partitions_added_during_the_outage_are_read_from_their_begin(stage: Stage) -> None:
    plan = stage.plan("outage")
    assert plan.places == {"outage": [(READ + 3, "exact", 0)] * 2 + [(0, "exact", 0)]}
    assert plan.refusals == {}
    assert "the old topic was not known to have this partition" in plan.notes[2]


def test_other_partitions_resume_at_one_time_and_want_consent(stage: Stage) -> None:
    """The earliest last record that was read is of second 58, and the buffer is ten seconds."""
    plan = stage.plan("split")
    assert plan.places == {"split": [(16, "timestamp", 11), (16, "timestamp", 11), (16, "timestamp", 10)]}
    text = (
        "partition counts differ (split: 2 on east, 3 on west): all partitions resume at one common time and records "
        "may be read twice; --consent repeats accepts it"
    )
    assert plan.refusals == {"partitions-match": text}
    assert stage.plan("split", "repeats").refusals == {}


def test_fewer_partitions_allow_only_a_fresh_start_with_consent(stage: Stage) -> None:
    """The earliest last record that was read is of second 87, and the buffer is ten seconds."""
    text = "joined has 2 of 3 partitions: a checkpoint cannot be carried to fewer"
    assert stage.plan("joined", "repeats").refusals == {"partitions-present": text}
    assert stage.plan("anew").refusals.keys() == {"partitions-match"}
    plan = stage.plan("anew", "repeats")
    assert plan.places == {"joined": [(39, "timestamp", 21), (38, "timestamp", 22)]}
    assert plan.refusals == {}


def test_a_topic_missing_on_the_standby_is_refused_by_name_and_not_created(stage: Stage) -> None:
    plan = stage.plan("lonely")
    assert plan.refusals["topics-present"] == "west has no topic lonely"
    assert plan.refusals.keys() == {"topics-present", "place-found"}
    assert plan.places["copied"] == [(READ, "exact", 0)] * 2
    assert "lonely" not in stage.west.admin.list_topics(timeout=SECONDS).topics


def test_a_pattern_takes_in_what_appeared_under_the_prefix_from_its_begin(stage: Stage) -> None:
    plan = stage.plan("shop")
    assert plan.places == {"east.shop-a": [(READ + 3, "exact", 0)] * 2, "east.shop-new": [(2, "exact", 0)]}
    assert plan.refusals == {}
    assert {row["topic"] for row in plan.value["partitions"]} == {"shop-a", "shop-new"}


def test_a_pattern_whose_topic_only_the_old_cluster_has_is_refused_by_name(stage: Stage) -> None:
    assert stage.plan("arcade").refusals["topics-present"] == "west has no topic arcade-gone"


def test_a_resume_offset_by_syncs_never_passes_the_position(stage: Stage) -> None:
    """At offset 28 here is 31: adding the distance would skip record 30, as a record in between was left out."""
    plan = stage.plan("sieved")
    assert plan.places == {"sieved": [(32, "synced", 0), (READ + 3, "synced", 0)]}
    assert stage.west.held["sieved", 0][32] == 2 * READ, "the first unread record"
    assert plan.refusals == {}


def test_the_begin_of_every_partition_is_shown(stage: Stage) -> None:
    assert found_by(stage, "grown", "--earliest") == [(0, None), (0, None), (5, None), (0, None)]


def test_the_record_of_the_largest_time_need_not_be_the_last(stage: Stage) -> None:
    assert found_by(stage, "unsorted", "--max-timestamp") == [(1, T0_MS + 9_000)]


def test_records_of_an_open_transaction_show_only_to_read_uncommitted(stage: Stage) -> None:
    unread = T0_MS + 60_000
    with stage.west.unfinished("opened", 60):
        for question, anybody, committed in (
            (("--latest",), (4, None), (3, None)),
            (("--at", str(unread)), (3, unread), (None, None)),
            (("--at", str(T0_MS)), (0, T0_MS), (0, T0_MS)),
            (("--max-timestamp",), (3, unread), (None, None)),
        ):
            assert found_by(stage, "opened", *question, "--isolation", "read_uncommitted") == [anybody]
            assert found_by(stage, "opened", *question, "--isolation", "read_committed") == [committed]


def test_the_age_of_a_copy_is_shown_while_both_clusters_live(stage: Stage) -> None:
    """What its partitions lack, in seconds of the records' times and in records."""
    code, rows = stage.aged
    assert (code, [row["error"] for row in rows]) == (0, [None, None])
    assert [(row["age_seconds"], row["age_records"]) for row in rows] == [(30.0, EACH - 25)] * 2
    assert [row["standby_timestamp_ms"] for row in rows] == [T0_MS + number * 1000 for number in (48, 49)]


def test_a_broker_without_a_segment_request_puts_the_error_into_each_row(stage: Stage) -> None:
    code, rows = stage.say("offsets", "--cluster", "west", "--topic", "copied", "--segments")
    assert code == 2
    assert [(row["partition"], row["offsets"], row["error"]) for row in rows] == [
        (number, [], "UNSUPPORTED_VERSION") for number in range(2)
    ]


def found_by(stage: Stage, topic: str, *flags: str) -> list[tuple[int | None, int | None]]:
    """Offset and time that the verb reports of every partition of a topic on the standby."""
    code, rows = stage.say("offsets", "--cluster", "west", "--topic", topic, *flags)
    assert (code, [row["error"] for row in rows]) == (0, [None] * len(rows))
    return [(row["offset"], row["timestamp_ms"]) for row in rows]
