"""The small decisions around a run: gates, stacks, progress, the follower, names of topics, options."""

import sqlite3
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import ForeachBatchFunction

from state.messages import SinkState
from state.settings.keys import Cluster, Route, Tideover
from state.settings.security import Password, Security
from state.settings.topics import pattern_of, topics_of
from streaming.spark.checkpoint.batch_news import PublishedEntry, read_news
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.follower import Batch, Follower
from streaming.spark.errors import RunFenced
from streaming.spark.hosting import Subject, absolute
from streaming.spark.query import run_monitor
from streaming.spark.query.callbacks import CallbackGate, gated
from streaming.spark.query.kafka_options import cluster_options, overridden, source_options
from streaming.spark.query.query_report import Totals, rows_by_source
from streaming.spark.query.query_run import in_batch
from streaming.spark.query.run_monitor import RunMonitor
from tests.checkpoints import CheckpointFolder, orders

DECLARED = {"orders": ("orders",)}


def settings(**route: Any) -> Tideover:
    query = {
        "pipeline": "examples.orders:revenue",
        "sources": {"orders": {"topics": ["orders"], "options": {"kafkaconsumer.polltimeoutms": 7}}},
        "clusters": ["east", "west"],
        "runners": ["a"],
        "checkpoint": "checkpoints/revenue",
    }  # fmt: skip
    return Tideover.model_validate(
        {
            "store": "sqlite://",
            "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1", "w:2"]}},
            "runners": {"a": {}},
            "routes": [{"from": "east", "to": "west", **route}] if route else [],
            "queries": {"revenue": query},
        }
    )


FRAME = cast(DataFrame, None)
"""It is only passed on."""


# -- gate ----------------------------------------------------------------------------------------------------------
def test_a_function_that_is_set_inside_the_block_goes_through_the_gate() -> None:
    gate, calls = CallbackGate(), []
    session = cast(SparkSession, None)

    def function(_frame: DataFrame, batch: int) -> None:
        calls.append(batch)

    with gated(gate):
        inside = ForeachBatchFunction(session, function)
    outside = ForeachBatchFunction(session, function)
    inside.func(FRAME, 1)
    outside.func(FRAME, 2)
    assert (calls, gate.entered) == ([1, 2], 1)


def test_a_closed_gate_lets_no_callback_start() -> None:
    gate, calls = CallbackGate(), []
    guarded = gate.watch(lambda _frame, batch: calls.append(batch))
    guarded(FRAME, 1)
    gate.close()
    with pytest.raises(RunFenced, match="batch 2"):
        guarded(FRAME, 2)
    assert calls == [1]
    assert (gate.entered, gate.finished, gate.running) == (1, 1, 0)


def test_a_run_knows_whether_the_sink_has_the_batch_it_planned() -> None:
    gate = CallbackGate()

    frame: Any = SimpleNamespace()

    def refuse(_frame: Any, _batch: int) -> None:
        raise OSError("the sink is away")

    assert gate.sink_state(7) is SinkState.UNKNOWN, "an earlier run may have planned it"
    gate.watch(lambda _frame, _batch: None)(frame, 6)
    assert gate.sink_state(7) is SinkState.HAS_NOT
    with pytest.raises(OSError, match="away"):
        gate.watch(refuse)(frame, 7)
    assert gate.sink_state(7) is SinkState.UNKNOWN, "the callback was cut short"
    gate.watch(lambda _frame, _batch: None)(frame, 7)
    assert gate.sink_state(7) is SinkState.HAS


def test_a_callback_inside_a_closing_gate_counts_until_it_is_out() -> None:
    gate, inside, leave = CallbackGate(), threading.Event(), threading.Event()

    def slow(_frame: object, _batch: int) -> None:
        inside.set()
        leave.wait(60.0)

    thread = threading.Thread(target=gate.watch(slow), args=(SimpleNamespace(), 5))
    thread.start()
    assert inside.wait(60.0)
    gate.close()
    assert (gate.running, gate.entered, gate.finished) == (1, 5, None)
    leave.set()
    thread.join(60.0)
    assert (gate.running, gate.finished) == (0, 5)


def test_an_error_of_a_callback_is_kept_in_one_line() -> None:
    gate = CallbackGate()

    def broken(_frame: object, _batch: int) -> None:
        raise sqlite3.OperationalError("database is locked\nat line 7")

    with pytest.raises(sqlite3.OperationalError):
        gate.watch(broken)(FRAME, 3)
    assert gate.error == "OperationalError: database is locked"
    assert (gate.running, gate.finished) == (0, None)


def test_a_callback_that_a_fence_cut_short_says_so_without_its_traceback() -> None:
    gate = CallbackGate()

    def cancelled(_frame: object, _batch: int) -> None:
        gate.close()
        raise OSError("An error occurred while calling o1.collect")

    with pytest.raises(RunFenced, match="batch 3 was cut short") as caught:
        gate.watch(cancelled)(FRAME, 3)
    assert caught.value.__suppress_context__


# -- thread of a stopped run ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("stack", "inside"),
    [
        ("", False),
        ("park await listNodes latestOffset constructNextBatch executeOneBatch", False),
        ("park close stopSources stop runStream run", False),
        ("write add constructNextBatch executeOneBatch", True),
        ("rename addBatch runBatch executeOneBatch", True),
        ("latestOffset runBatch executeOneBatch", True),
    ],
)
def test_a_thread_counts_as_inside_a_batch_from_its_offset_log_entry_on(stack: str, inside: bool) -> None:
    assert in_batch(stack) is inside


# -- progress ------------------------------------------------------------------------------------------------------
def report(batch: int, rows: int, *, ran: bool = True, dropped: int = 0) -> dict[str, Any]:
    return {
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"addBatch": 5, "triggerExecution": 250} if ran else {"latestOffset": 3},
        "stateOperators": [{"numRowsDroppedByWatermark": dropped}],
        "sources": [{"endOffset": {"orders": {"0": 10}}, "numInputRows": rows}],
    }


def test_each_batch_is_counted_once_and_idle_triggers_not_at_all() -> None:
    totals = Totals().after([report(4, 10, dropped=1), report(5, 0, ran=False)])
    totals = totals.after([report(4, 10, dropped=1), report(5, 7, dropped=2), report(5, 7, dropped=2)])
    assert (totals.batch, totals.input_rows, totals.dropped_late_rows, totals.seconds) == (5, 17, 3, 0.25)
    assert (totals.rows.batches, totals.rows.read, totals.rows.dropped) == (2, 17, 3)


def test_a_batch_that_was_not_counted_is_unknown_and_not_zero() -> None:
    assert Totals().after([report(5, 0, ran=False)]).input_rows is None


def test_rows_are_counted_by_source_through_its_end_offsets() -> None:
    ours = {"orders": {"orders": {"0": 10}}, "other": {"other": {"0": 3}}}
    assert rows_by_source(report(4, 9), ours) == {"orders": 9}
    assert rows_by_source(report(4, 9), {"a": {"orders": {"0": 10}}, "b": {"orders": {"0": 10}}}) == {}


# -- follower ------------------------------------------------------------------------------------------------------
def test_batches_are_seen_in_order_planned_before_committed(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.commit(0)
    folder.commit(1)
    follower = Follower(LocalFiles(), str(tmp_path), DECLARED)
    assert (follower.committed, follower.data_batch) == (1, 2)
    assert follower.poll() == [Batch(id=1, offsets={"orders": orders(1)}, committed=True)]
    folder.plan(2)
    assert follower.poll() == [Batch(id=2, offsets={"orders": orders(2)}, committed=False)]
    folder.commit(2)
    folder.commit(3)
    assert [(batch.id, batch.committed) for batch in follower.poll()] == [(3, False), (2, True), (3, True)]
    assert follower.poll() == []


def test_batches_that_were_purged_between_two_looks_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.spark.checkpoint.follower._LIST_SECONDS", 0.0)
    folder = CheckpointFolder(tmp_path)
    folder.commit(0)
    follower = Follower(LocalFiles(), str(tmp_path), DECLARED)
    follower.poll()
    for batch in range(150, 153):
        folder.commit(batch)
    (tmp_path / "offsets" / "0").unlink()
    (tmp_path / "commits" / "0").unlink()
    planned, committed = follower.poll()
    assert (planned.id, planned.committed, planned.planned_after) == (152, False, None)
    assert committed == Batch(id=152, offsets={"orders": orders(152)}, committed=True)
    assert follower.poll() == []
    folder.commit(153)
    assert [(batch.id, batch.committed) for batch in follower.poll()] == [(153, False), (153, True)]


class Closed(LocalFiles):
    """Folders into which no one may look."""

    def exists(self, path: str) -> bool:
        raise AssertionError(path)

    def read_bytes(self, path: str) -> bytes:
        raise AssertionError(path)


def published_of(folder: CheckpointFolder, *names: str) -> list[PublishedEntry]:
    """Entries as the run shows them."""
    return [read_news(f"{name}\n{folder.text(name)}") for name in names]


@pytest.fixture
def followed(tmp_path: Path) -> tuple[CheckpointFolder, Follower]:
    """A checkpoint whose batch 0 is committed, and its follower after the first look."""
    folder = CheckpointFolder(tmp_path)
    folder.commit(0)
    follower = Follower(LocalFiles(), str(tmp_path), DECLARED)
    assert [batch.id for batch in follower.poll([])] == [0]
    for batch in range(1, 5):
        folder.commit(batch)
    return folder, follower


def test_entries_that_a_run_publishes_are_believed_without_a_look(followed: tuple[CheckpointFolder, Follower]) -> None:
    folder, follower = followed
    follower._files = Closed()
    assert follower.poll([]) == []
    (planned,) = follower.poll(published_of(folder, "offsets/1"))
    assert planned == Batch(id=1, offsets={"orders": orders(1)}, committed=False)
    assert planned.planned_after is not None
    seen = follower.poll(published_of(folder, "commits/1", "offsets/2", "commits/2"))
    assert [(batch.id, batch.committed) for batch in seen] == [(2, False), (1, True), (2, True)]
    assert seen[-1].offsets == {"orders": orders(2)}


def test_an_entry_that_is_published_twice_is_one(followed: tuple[CheckpointFolder, Follower]) -> None:
    folder, follower = followed
    follower.poll(published_of(folder, "offsets/1", "commits/1"))
    assert follower.poll(published_of(folder, "offsets/1", "commits/1")) == []


@pytest.mark.parametrize("lost", ["offsets/3", "commits/3"])
def test_where_an_entry_was_lost_the_folders_are_looked_at(
    followed: tuple[CheckpointFolder, Follower], lost: str
) -> None:
    folder, follower = followed
    names = ["offsets/2", "commits/2", "offsets/4", "commits/4"]
    if lost != "offsets/3":
        names = ["offsets/1", "commits/1", *names[:2], "offsets/3", *names[2:]]
    news = published_of(folder, *names)
    seen = follower.poll(news)
    assert [batch.id for batch in seen if not batch.committed] == [1, 2, 3, 4]
    assert [batch.id for batch in seen if batch.committed] == [1, 2, 3, 4]


def test_folders_are_looked_at_now_and_then_whatever_is_published(
    followed: tuple[CheckpointFolder, Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, follower = followed
    assert follower.poll([]) == []
    monkeypatch.setattr("streaming.spark.checkpoint.follower._LIST_SECONDS", 0.0)
    assert {batch.id for batch in follower.poll([])} == {1, 2, 3, 4}


def test_an_empty_bridge_batch_is_not_the_first_that_can_hold_data(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.commit(0)
    folder.commit(1)
    folder.plan(2, orders(1))
    assert Follower(LocalFiles(), str(tmp_path), DECLARED).data_batch == 3


def test_a_checkpoint_that_does_not_exist_yet_begins_with_batch_0(tmp_path: Path) -> None:
    follower = Follower(LocalFiles(), str(tmp_path / "new"), DECLARED)
    assert (follower.committed, follower.data_batch, follower.poll()) == (None, 0, [])


def test_a_planted_entry_is_not_a_batch(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.commit(0)
    folder.write("offsets/1", "fenced by tideover: epoch 2, operation op: this checkpoint is being moved")
    follower = Follower(LocalFiles(), str(tmp_path), DECLARED)
    assert [batch.id for batch in follower.poll()] == [0]


# -- names and options ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("topics", "name"), [("identity", "orders"), ({"prefix": "east."}, "east.orders"), ({"orders": "o2"}, "o2")]
)
def test_topics_have_the_names_that_the_route_gives_them(topics: Any, name: str) -> None:
    known = settings(topics=topics)
    assert topics_of(known, known.queries["revenue"], "west") == {"orders": (name,)}
    assert topics_of(known, known.queries["revenue"], "east") == {"orders": ("orders",)}


def test_a_route_that_leads_home_is_read_the_other_way_round() -> None:
    back = Route.model_validate({"from": "west", "to": "east", "topics": {"o2": "orders"}})
    known = settings().model_copy(update={"routes": (back,)})
    assert topics_of(known, known.queries["revenue"], "west") == {"orders": ("o2",)}


def test_a_pattern_gets_the_prefix_of_its_route() -> None:
    known = settings(topics={"prefix": "east."})
    query = known.queries["revenue"]
    source = query.sources["orders"].model_copy(update={"topics": (), "pattern": "ord.*|pay"})
    assert pattern_of(known, query, source, "west") == r"east\.(?:ord.*|pay)"


def test_a_pattern_behind_a_map_is_the_names_that_match_at_home() -> None:
    known = settings(topics={"orders": "o.2", "order": "o3", "payments": "p"})
    query = known.queries["revenue"]
    source = query.sources["orders"].model_copy(update={"topics": (), "pattern": "ord.*"})
    assert pattern_of(known, query, source, "west") == r"o\.2|o3"
    assert pattern_of(known, query, source, "east") == "ord.*"


def test_the_users_options_win_whatever_their_case() -> None:
    known = settings(topics={"prefix": "east."})
    options = source_options(known, known.queries["revenue"], "orders", "west", None)
    assert options["kafkaconsumer.polltimeoutms"] == "7"
    assert "kafkaConsumer.pollTimeoutMs" not in options
    assert options["kafka.bootstrap.servers"] == "w:1,w:2"
    assert options["subscribe"] == "east.orders"
    assert options["failOnDataLoss"] == "true"
    assert options["startingOffsets"] == "earliest"
    assert options["fetchOffset.numRetries"] == "4"


def test_a_fresh_move_names_its_offsets() -> None:
    known = settings()
    options = source_options(known, known.queries["revenue"], "orders", "west", {"orders": {"0": 5, "1": 6}})
    assert options["startingOffsets"] == '{"orders":{"0":5,"1":6}}'


def test_options_are_text_and_truth_is_lower_case() -> None:
    assert overridden({"a": "1"}, {"A": True, "b": 2}) == {"A": "true", "b": "2"}


@pytest.mark.parametrize(
    ("limit", "first", "longest"),
    [(1, "1000", "5000"), (4, "1000", "2500"), (20, "500", "1000"), (400, "50", "1000")],
)
def test_clients_of_a_cluster_that_limits_connections_reconnect_later(limit: int, first: str, longest: str) -> None:
    options = cluster_options(Cluster(bootstrap=("e:1",), connections_per_second=limit))
    assert (options["kafka.reconnect.backoff.ms"], options["kafka.reconnect.backoff.max.ms"]) == (first, longest)
    assert not any("reconnect" in key for key in cluster_options(Cluster(bootstrap=("e:1",))))


def test_certificates_travel_as_text_and_passwords_are_quoted(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"-----{name}-----")
    cluster = Cluster(
        bootstrap=("e:1",),
        security=Security(
            protocol="SASL_SSL",
            ca=tmp_path / "ca",
            cert=tmp_path / "cert",
            key=tmp_path / "key",
            check_hostname=False,
            sasl=Password.model_validate({"mechanism": "SCRAM-SHA-512", "username": 'a"b', "password": "c\\d"}),
        ),
    )
    options = cluster_options(cluster)
    assert options["kafka.ssl.truststore.certificates"] == "-----ca-----"
    assert options["kafka.ssl.keystore.key"] == "-----key-----"
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="a\\"b" password="c\\\\d";'
    )  # fmt: skip


# -- checkpoints ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("path", "expected"),
    [("var/c", "/base/var/c"), ("/abs/c", "/abs/c"), ("hdfs://nn/c", "hdfs://nn/c"), ("file:/c", "file:/c")],
)
def test_checkpoints_become_absolute_and_uris_stay(path: str, expected: str) -> None:
    assert absolute(path, Path("/base")) == expected


# -- monitor -------------------------------------------------------------------------------------------------------
@dataclass
class Watched:
    """A run and its follower, as a monitor sees them; a test says what there is to be seen."""

    news: None = None
    is_waiting: bool = False
    committed: int | None = None
    data_batch: int = 0
    batches: list[Batch] = field(default_factory=list)
    reported: list[int] = field(default_factory=list)
    """Numbers of the batches that Spark has reported."""

    def commit(self, batch: int) -> None:
        self.committed = batch
        self.batches.append(Batch(id=batch, offsets={"orders": orders(batch)}, committed=True))

    def poll(self, _: object) -> list[Batch]:
        new, self.batches = self.batches, []
        return new

    def progress(self) -> list[dict[str, Any]]:
        durations = {"addBatch": 1}
        return [{"batchId": each, "sources": [], "numInputRows": 7, "durationMs": durations} for each in self.reported]

    def silence(self) -> None:
        """Its cluster answers."""

    def last_progress(self) -> dict[str, Any] | None:
        return self.progress()[-1] if self.reported else None


def monitoring(watched: Watched, counted: list[Totals], inspected: list[str]) -> RunMonitor:
    def declared(query: str, _: str) -> Any:
        inspected.append(query)
        return DECLARED

    def ignored(*_: object, **__: object) -> None:
        """What else is said of the run."""

    listener = SimpleNamespace(see=ignored, count=ignored)
    hosting = SimpleNamespace(listener=listener, declared=declared, files=LocalFiles(), bucket_rules=lambda _: None)
    ledger = SimpleNamespace(
        has_batch=ignored, committed=ignored, report=ignored, waits=ignored, has_progressed=False, kept_by=ignored,
        counted=counted.append,
    )  # fmt: skip
    seen, log = cast(Any, watched), structlog.get_logger()
    return RunMonitor(cast(Any, hosting), Subject("q", 1, "east", "/nowhere"), seen, seen, cast(Any, ledger), log)


def test_a_batch_is_counted_once_spark_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    counted: list[Totals] = []
    inspected: list[str] = []
    monitor = monitoring(watched, counted, inspected)
    monitor.poll()
    monkeypatch.setattr(run_monitor, "_REPORT_SECONDS", 3600.0)  # from here on it counts for a reason only
    watched.commit(0)
    monitor.poll()
    assert (counted, inspected) == ([], []), "Spark reports it a moment later"
    watched.reported.append(0)
    monitor.poll()
    assert ([each.batch for each in counted], inspected) == ([0], ["q"])


def test_a_run_that_publishes_nothing_is_looked_at_after_a_pause() -> None:
    waited: list[float] = []
    monitoring(Watched(), [], []).wait(cast(Any, SimpleNamespace(wait=waited.append)), 0.25)
    assert waited == [0.25]


def test_a_run_that_was_sent_on_does_not_count_its_batches_of_before() -> None:
    watched, counted = Watched(committed=2, reported=[1, 2]), list[Totals]()
    monitor = monitoring(watched, counted, [])
    monitor.poll()
    assert counted == []
    watched.commit(3)
    watched.reported.append(3)
    monitor.poll()
    assert [(each.batch, each.input_rows, each.rows.batches, each.rows.read) for each in counted] == [(3, 7, 1, 7)]
