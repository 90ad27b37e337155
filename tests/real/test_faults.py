"""Failovers that are struck while they are under way: whatever dies, every record is read once.

One world and one runner serve all tests, in any order: each moves the queries from wherever they are to the other
cluster. The sinks keep their rows by batch, so a batch that was skipped or given out twice shows as well.
"""

import json
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lab.world import CLUSTERS
from orchestrator.decide.evidence.claims import Verdict, read
from orchestrator.facts.evidence.verification import verify_places
from orchestrator.facts.resume_offsets import STANDBY_SECONDS
from state.model.entities import Phase
from state.settings.keys import Cluster
from streaming.kafka.link import Link
from streaming.spark.checkpoint.read import EPOCHS
from tests.real.pipelines import kept
from tests.real.theatre import BATCH, LETTERS, ORDERS, PARCELS, Theatre, free_bytes, locked_store, opened
from tests.scene import exactly
from tests.streams import SHIFT

pytestmark = [pytest.mark.real, pytest.mark.shared]

UNDER_WAY = (Phase.FENCING, Phase.BLOCKED, Phase.RESOLVING, Phase.PREPARING, Phase.STARTING, Phase.VERIFYING)


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    with opened(tmp_path_factory.mktemp("faults")) as theatre:
        yield theatre


def test_the_same_failover_typed_twice_at_once_is_one_operation_and_one_move(theatre: Theatre) -> None:
    _, there = theatre.gathered()
    epochs = epochs_of(theatre)
    requested, before = requests(theatre), {each.id for each in theatre.store.operations()}
    with theatre.frozen_host():
        typed = [theatre.failover("--all", there) for _ in range(2)]
        theatre.until("both have asked", lambda: len(requests(theatre) - requested) == 8)
        theatre.await_requested("rows")
    first, second = (each.end() for each in typed)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    moved = {query: row["id"] for query, row in first.operations.items()}
    assert {query: row["id"] for query, row in second.operations.items()} == moved
    assert "(joined)" in first.err + second.err
    assert {each.query: each.id for each in theatre.store.operations() if each.id not in before} == moved
    assert_moved_once(theatre, there, epochs)
    theatre.more(ORDERS)
    theatre.await_all(ORDERS)
    theatre.assert_all_once()


def test_a_failover_is_verified_and_a_planted_wrong_offset_found(theatre: Theatre) -> None:
    here, there = theatre.gathered()
    theatre.more(ORDERS)
    theatre.await_all(ORDERS)
    theatre.freeze(here)
    said = theatre.failover("rows", there).end()
    assert said.code == 0, said.err
    operation = said.operations["rows"]["id"]
    unknown = theatre.type("verify-op", operation, "-o", "json").end()
    of_each = {claim["name"]: claim["verdict"] for claim in json.loads(unknown.out)["claims"]}
    assert (unknown.code, of_each["resume-offset"], of_each["replay"]) == (3, "holds", "holds"), unknown.out
    assert of_each["exposure"] == "cannot be checked", "the cluster that was left stands still"
    theatre.thaw(here)
    whole = theatre.type("verify-op", operation, "-o", "json").end()
    assert (whole.code, json.loads(whole.out)["verdict"]) == (0, "holds"), whole.out + whole.err
    assert theatre.type("verify-op", "--chain").end().code == 0
    theatre.more(ORDERS)  # a wrong offset leads into these then, not behind the end of the log

    kept = theatre.store.evidence(operation)
    assert kept is not None
    links = {name: Link(Cluster(bootstrap=tuple(theatre.world.bootstrap(name)))) for name in CLUSTERS}
    try:
        for skipped, again in ((3, 0), (0, 4)):
            planted = read(kept)
            assert planted is not None
            planted["partitions"][1]["target_offset"] += skipped - again
            planted["partitions"][1]["end"] += skipped
            found = verify_places(planted, {}, links.__getitem__, lambda _: None)
            wrongs = [claim for claim in found if claim.verdict is Verdict.DOES_NOT_HOLD]
            (wrong,) = (claim for claim in wrongs if claim.name != "exposure")  # its end was moved, too
            right = planted["partitions"][1]["target_offset"] - skipped
            assert wrong[:3] == ("resume-offset" if skipped else "replay", ORDERS, 1)
            assert (wrong.found, wrong.text[:2]) == ((right, "3 ") if skipped else (again, "4 "))
    finally:
        for link in links.values():
            link.close()


@pytest.mark.parametrize("phase", [Phase.FENCING, Phase.PREPARING, Phase.STARTING])
def test_a_verb_killed_on_its_way_is_joined_and_finished_by_the_same_verb(theatre: Theatre, phase: Phase) -> None:
    here, there = theatre.gathered()
    theatre.more(ORDERS)
    epochs = epochs_of(theatre)
    theatre.freeze(here)  # with the last records still on their way to the sinks
    typed = theatre.failover("--all", there)
    late = UNDER_WAY[UNDER_WAY.index(phase) :]
    theatre.await_operation("sums", *late)
    typed.kill()
    left = {operation.query: operation.id for operation in theatre.store.operations(only_open=True)}
    assert left, "it was killed too late to be missed"
    said = theatre.failover("--all", there).end()
    assert said.code == 0, said.err
    assert {query: said.operations[query]["id"] for query in left} == left
    assert_moved_once(theatre, there, epochs)
    theatre.assert_goes_on(here, there)


def test_a_standby_killed_before_the_commit_is_waited_for(theatre: Theatre) -> None:
    here, there = theatre.gathered()
    theatre.more(ORDERS)
    theatre.freeze(here)
    with theatre.frozen_host():
        typed = theatre.failover("--all", there)
        for query in epochs_of(theatre):
            theatre.await_requested(query)
        theatre.kill(there)
        time.sleep(STANDBY_SECONDS)  # until no answer that it gave before counts any more
    theatre.until(
        "the verb says what it waits for",
        lambda: any("does not answer, trying again" in each.sentence for each in theatre.store.operations(limit=4)),
    )
    assert theatre.sides("sums")[0] == here
    theatre.start(there)
    said = typed.end()
    assert said.code == 0, said.err
    theatre.assert_goes_on(here, there)


def test_a_store_locked_for_seconds_only_delays_the_failover(theatre: Theatre) -> None:
    _, there = theatre.gathered()
    theatre.more(ORDERS)
    with theatre.frozen_host():
        typed = theatre.failover("--all", there)
        theatre.await_requested("rows")
    with locked_store(theatre.store_file):
        under_way = {operation.id for operation in theatre.store.operations(only_open=True)}
        theatre.more(ORDERS)
        time.sleep(8.0)
        assert {operation.id for operation in theatre.store.operations(only_open=True)} == under_way
        assert typed.process.poll() is None, "it waits"
    said = typed.end()
    assert said.code == 0, said.err
    theatre.await_all(ORDERS)
    theatre.assert_all_once()


def test_a_standby_that_lost_the_topic_after_the_fence_gives_the_query_back(theatre: Theatre) -> None:
    here, there = theatre.sides("boxed")
    end = theatre.more(PARCELS)
    theatre.await_all(PARCELS)
    before = theatre.ids("boxed")
    with theatre.frozen_host():
        typed = theatre.failover("boxed", there)
        theatre.await_requested("boxed")
        admin = AdminClient({"bootstrap.servers": theatre.clusters[there].bootstrap})
        admin.delete_topics([PARCELS])[PARCELS].result(120)
        time.sleep(STANDBY_SECONDS)  # so long counts what was seen and found there before
    said = typed.end()
    assert said.code == 1, said.err
    sentence = said.operations["boxed"]["sentence"]
    assert f"{there} has no topic {PARCELS}" in sentence or "UNKNOWN_TOPIC_OR_PARTITION" in sentence
    row = theatre.store.assignment("boxed")
    assert row is not None
    assert (row.cluster, row.epoch) == (here, theatre.operations("boxed")[0].epoch + 1)
    theatre.extend(PARCELS, end + BATCH, here)
    theatre.until("boxed goes on", lambda: theatre.ids("boxed") == before + exactly(range(end, end + BATCH)))
    theatre.assert_no_batch_skipped("boxed")
    theatre.make_again(PARCELS, there)


def test_a_disk_that_is_full_while_cloning_gives_the_query_back(theatre: Theatre) -> None:
    here, there = theatre.sides("boxed")
    before, end = theatre.ids("boxed"), theatre.clusters[here].ends[PARCELS]
    filler = theatre.disk / "filler"
    with filler.open("wb") as file:
        file.write(bytes(free_bytes(theatre.disk) - 60_000))  # enough for a batch, too little for a checkpoint
    said = theatre.failover("boxed", there).end()
    assert said.code == 2, said.err
    assert "free at" in said.operations["boxed"]["sentence"]
    assert theatre.sides("boxed")[0] == here
    operation = said.operations["boxed"]["id"]
    left = [path for path in theatre.disk.rglob("*") if operation in path.name]
    assert {path.parent.name for path in left} <= {EPOCHS}, "the query's next start writes its epoch, and no more"
    filler.unlink()
    newest = theatre.more(PARCELS)
    theatre.await_all(PARCELS)
    assert theatre.ids("boxed") == before + exactly(range(end, newest))
    theatre.assert_no_batch_skipped("boxed")


def test_a_runner_killed_on_the_way_is_replaced_by_one_that_proves_it_gone(theatre: Theatre) -> None:
    here, there = theatre.gathered()
    spare = theatre.stand_by()
    theatre.more(ORDERS)
    theatre.await_all(ORDERS)
    theatre.freeze(here)
    host = theatre.freeze_host()
    typed = theatre.failover("--all", there)
    theatre.await_requested("rows")
    host.kill()
    said = typed.end()
    assert said.code == 0, said.err
    assert {row["plan"]["fence"] for row in said.operations.values()} == {"process"}
    assert theatre.host is spare
    theatre.assert_goes_on(here, there)


def test_a_runner_that_wakes_up_without_its_queries_writes_no_row(theatre: Theatre) -> None:
    _, there = theatre.gathered()
    spare = theatre.stand_by()
    theatre.more(ORDERS)
    theatre.await_all(ORDERS)
    host = theatre.freeze_host()
    stopped = host.log().count("query stopped")
    typed = theatre.failover("--all", there)
    theatre.await_operation("rows", Phase.BLOCKED)
    assert theatre.failover("--all", there, "--consent", "unfenced", "--timeout", "60").end().code == 0
    assert typed.end().code == 0
    assert theatre.host is spare
    theatre.extend(ORDERS, theatre.more(ORDERS, there))
    theatre.await_all(ORDERS)
    thawed = time.time()
    host.thaw()
    theatre.until("it has noticed", lambda: host.log().count("query stopped") >= stopped + 4)
    theatre.more(ORDERS)
    theatre.await_all(ORDERS)
    for query in ("rows", "sums"):
        late = [each for each in kept(theatre.sink(query)) if each["at"] > thawed]
        assert {each["epoch"] for each in late} == {theatre.operations(query)[0].epoch}
    theatre.assert_all_once()
    host.stop()


def test_a_kafka_output_follows_its_query_and_holds_every_record_once(theatre: Theatre) -> None:
    here, there = theatre.sides("copied")
    first = theatre.more(LETTERS)
    theatre.until("all is copied here", lambda: {first - 1, first - 2} <= theatre.copied()[here].keys())
    theatre.until("all that it has read is tracked", lambda: theatre.is_tracked("copied", LETTERS))
    said = theatre.failover("copied", there).end()
    assert said.code == 0, said.err
    end = theatre.more(LETTERS)
    theatre.until("all is copied", lambda: theatre.copied()[there].keys() >= set(range(first, end)))
    held = theatre.copied()
    assert set(range(first, end)) <= held[there].keys()
    assert held[here] + held[there] == exactly(range(end))


def test_retention_past_the_resume_offset_refuses_until_gap_consent(
    theatre: Theatre,
) -> None:
    here, there = theatre.sides("boxed")
    theatre.await_all(PARCELS)
    before, read = theatre.ids("boxed"), theatre.clusters[here].ends[PARCELS]
    end = theatre.more(PARCELS, there)
    admin = AdminClient({"bootstrap.servers": theatre.clusters[there].bootstrap})
    shift = {int(key): count if there != CLUSTERS[0] else 0 for key, count in SHIFT.items()}
    deleted = [TopicPartition(PARCELS, number, (end - 20) // 2 + shift[number]) for number in shift]
    for future in admin.delete_records(deleted).values():
        future.result(120)
    said = theatre.failover("boxed", there).end()
    assert said.code == 1, said.err
    refused = next(gate for gate in said.operations["boxed"]["plan"]["gates"] if not gate["ok"])
    assert (refused["name"], refused["measured"], refused["limit"]) == ("retention", "2 partitions", "0 partitions")
    assert theatre.sides("boxed")[0] == here
    theatre.extend(PARCELS, read + 20, here)
    theatre.until("boxed goes on", lambda: theatre.ids("boxed") == before + exactly(range(read, read + 20)))
    theatre.assert_no_batch_skipped("boxed")
    said = theatre.failover("boxed", there, "--consent", "gap").end()
    assert said.code == 0, said.err
    theatre.until("what is left is read", lambda: end - 1 in theatre.ids("boxed") and end - 2 in theatre.ids("boxed"))
    assert theatre.ids("boxed") == before + exactly({*range(read, read + 20), *range(end - 20, end)})
    theatre.assert_no_batch_skipped("boxed")
    theatre.extend(PARCELS, end)
    # A log whose beginning was cut that close to the position has no place for a query that comes back to it.
    said = theatre.failover("boxed", here).end()
    assert said.code == 0, said.err
    admin.delete_topics([PARCELS])[PARCELS].result(120)
    theatre.make_again(PARCELS, there)


def test_a_standby_killed_after_the_commit_is_waited_for(theatre: Theatre) -> None:
    here, there = theatre.sides("rows")
    theatre.more(ORDERS)
    theatre.freeze(here)
    typed = theatre.failover("rows", there)
    theatre.await_operation("rows", Phase.STARTING, Phase.VERIFYING)
    theatre.kill(there)
    said_of = re.compile(f"{there} does not answer|fails on {there}")
    theatre.until("the error is told", lambda: said_of.search(theatre.operations("rows")[0].sentence))
    theatre.start(there)
    said = typed.end()
    assert said.code == 0, said.err
    theatre.thaw(here)
    moved = theatre.failover("sums", there).end()
    assert moved.code == 0, moved.err
    theatre.more(ORDERS, there)
    theatre.await_all(ORDERS)
    theatre.assert_all_once()


def requests(theatre: Theatre) -> set[tuple[object, ...]]:
    """The rows of what was requested, answered or not."""
    with closing(sqlite3.connect(theatre.store_file)) as connection:
        return set(connection.execute("SELECT id FROM requests"))


def epochs_of(theatre: Theatre) -> dict[str, int]:
    return {row.query: row.epoch for row in theatre.store.assignments()}


def assert_moved_once(theatre: Theatre, there: str, epochs: Mapping[str, int]) -> None:
    """Every query is there, one epoch later."""
    assert {row.cluster for row in theatre.store.assignments()} == {there}
    assert epochs_of(theatre) == {query: epoch + 1 for query, epoch in epochs.items()}
