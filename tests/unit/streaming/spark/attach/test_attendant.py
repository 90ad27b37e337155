"""The desk of an attendant: which starts of an application are ours, and what a waiting start gets for an answer."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from state.checkpoint_folders import mapping_name
from state.errors import StoreUnavailable
from state.model.entities import Assignment, Desired, RunState
from state.settings.keys import Tideover
from streaming.errors import CredentialRefused
from streaming.spark.attach import attached, attendant
from streaming.spark.attach.attached import AttachedSupervisor, attached_sources, beside_options
from streaming.spark.attach.attendant import Desk, _rows_that_run
from streaming.spark.attach.driver import ApplicationDriver, RunningQuery
from streaming.spark.errors import SparkMissing
from streaming.spark.hosting import Hosting
from streaming.spark.query.query_report import QueryReport
from tests.contract.samples import runner
from tests.memory_store import MemoryStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROW = Assignment(
    query="archive",
    epoch=4,
    placed_epoch=3,
    desired=Desired.RUNNING,
    cluster="west",
    runner="shop",
    checkpoint="/data/archive",
    starting_offsets=None,
    operation="op",
    changed_at=NOW,
    mapping=mapping_name(3, "op"),
)


class FakeDriver:
    """Notes the answer to each start."""

    def __init__(self, *requests: str, running: RunningQuery | None = None) -> None:
        self.waiting = list(requests)
        self.answers: list[tuple[str, str]] = []
        self.as_what = running
        self.declared: list[tuple[int, list[Mapping[str, Any]]]] = []

    def requests(self) -> list[str]:
        return self.waiting

    def leave_alone(self, key: str) -> None:
        self.answers.append((key, "not ours"))

    def delay(self, key: str, why: str) -> None:
        self.answers.append((key, why))

    def declare(self, queries: Sequence[Mapping[str, Any]], answers: int = 0) -> None:
        self.declared.append((answers, list(queries)))

    def running(self, key: str) -> RunningQuery | None:
        return self.as_what

    def condemn(self, code: int, why: str) -> None:
        self.answers.append((str(code), why))

    def exit(self) -> None:
        self.answers.append(("exit", ""))


def settings(topics: object = "identity", **more: object) -> Tideover:
    return Tideover.model_validate(
        {
            "store": "sqlite://",
            "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
            "routes": [{"from": "east", "to": "west", "topics": topics}],
            "runners": {"shop": {}},
            "queries": {
                "archive": {
                    "attach": "shop",
                    "sources": {"orders": {"topics": ["orders"]}},
                    "clusters": ["east", "west"],
                    "checkpoint": "/data/archive",
                    **more,
                }
            },
        }
    )


def hosting(row: Assignment | None, error: str | None = None, topics: object = "identity", **more: Any) -> Any:
    store = SimpleNamespace(
        assignment=lambda query: row,
        query_facts=lambda query: [] if error is None else [SimpleNamespace(query=query, error=error)],
    )
    known = settings(topics, **more)
    return SimpleNamespace(
        store=store, runner="shop", settings=known, query=known.queries.__getitem__, cluster_id=lambda cluster: None
    )


def looked(driver: FakeDriver, host: Any, *, away: bool = False) -> list[tuple[str, str]]:
    desk = Desk(driver, host, {"/data/archive": "archive"})  # type: ignore[arg-type]
    desk.look(SimpleNamespace(is_store_away=away))  # type: ignore[arg-type]
    return driver.answers


def test_a_start_of_a_query_in_no_configuration_is_left_alone() -> None:
    assert looked(FakeDriver("/data/other"), hosting(ROW)) == [("/data/other", "not ours")]


def test_a_start_of_a_query_that_is_held_waits_and_names_the_operation() -> None:
    held = replace(ROW, desired=Desired.HELD)
    assert looked(FakeDriver("/data/archive"), hosting(held)) == [
        ("/data/archive", "operation op holds archive: tideover show-op op")
    ]


def test_a_start_that_cannot_be_admitted_waits_and_gives_the_error() -> None:
    assert looked(FakeDriver("/data/archive"), hosting(ROW, "a mapping is missing")) == [
        ("/data/archive", "a mapping is missing")
    ]


def test_a_query_of_another_runner_waits_and_names_it() -> None:
    row = replace(ROW, runner="spare")
    assert looked(FakeDriver("/data/archive"), hosting(row)) == [
        ("/data/archive", "archive is assigned to runner spare")
    ]


def test_while_the_store_is_away_only_what_is_not_ours_gets_an_answer() -> None:
    driver = FakeDriver("/data/archive", "/data/other")
    assert looked(driver, hosting(ROW), away=True) == [("/data/other", "not ours")]


def joined(driver: FakeDriver, row: Assignment | None) -> list[Assignment]:
    return _rows_that_run(driver, hosting(row).store, {"/data/archive": "archive"})  # type: ignore[arg-type]


def test_a_run_of_an_older_epoch_is_hosted_under_that_epoch() -> None:
    running = RunningQuery(epoch=3, follower="f", cluster="west", placed=3)
    assert joined(FakeDriver(running=running), replace(ROW, desired=Desired.HELD)) == [
        replace(ROW, epoch=3, operation=None)
    ]


def test_a_run_of_the_rows_epoch_is_left_to_the_runner_to_join() -> None:
    running = RunningQuery(epoch=4, follower="f", cluster="west", placed=3)
    assert joined(FakeDriver(running=running), ROW) == []
    assert joined(FakeDriver(running=None), ROW) == []


def test_a_run_that_reads_another_cluster_than_its_row_ends_its_application() -> None:
    driver = FakeDriver(running=RunningQuery(epoch=3, follower="f", cluster="east", placed=0))
    assert joined(driver, ROW) == []
    assert driver.answers == [("75", "archive reads east, and is placed on west"), ("exit", "")]


def sources(row: Assignment, topics: object = "identity") -> dict[str, str]:
    host: Hosting = hosting(row, topics=topics)
    return attached_sources(host, row)["orders"]


def test_on_its_first_cluster_a_query_keeps_its_applications_connection() -> None:
    options = sources(replace(ROW, cluster="east", placed_epoch=1, mapping=None))
    assert "kafka.bootstrap.servers" not in options
    assert "subscribe" not in options
    assert options["tideover.cluster"] == "east"
    assert options["tideover.source"] == "orders"


def test_elsewhere_it_reads_by_the_connection_of_the_configuration() -> None:
    options = sources(ROW)
    assert options["kafka.bootstrap.servers"] == "w:1"
    assert "subscribe" not in options, "topics have the same names there, so the application's own words stay"


def test_topics_with_another_name_there_replace_the_applications() -> None:
    assert sources(ROW, {"orders": "east.orders"})["subscribe"] == "east.orders"


AT_HOME = replace(ROW, cluster="east", placed_epoch=1, mapping=None)


def beside(row: Assignment, **more: Any) -> dict[str, dict[str, str]]:
    return beside_options(
        hosting(row, topics={"prices": "east.prices", "orders": "orders"}, **more), "archive", row.cluster
    )


def test_a_batch_keeps_its_applications_connection_on_the_first_cluster() -> None:
    found = beside(AT_HOME, output={"topic": "out"}, batch_reads=["prices"])
    assert found == {
        "@reads": {"tideover.cluster": "east", "topic:prices": "prices"}, "@writes": {"tideover.cluster": "east"}
    }  # fmt: skip


def test_a_batch_has_connection_and_names_of_the_cluster_of_its_query() -> None:
    found = beside(ROW, output={"topic": "out"}, batch_reads=["prices"])
    assert found["@reads"]["topic:prices"] == "east.prices"
    for options in found.values():
        assert (options["tideover.cluster"], options["kafka.bootstrap.servers"]) == ("west", "w:1")


@pytest.mark.parametrize("row", [AT_HOME, ROW], ids=["at home", "elsewhere"])
def test_a_batch_read_compares_the_id_of_its_cluster(row: Assignment) -> None:
    host = hosting(row, batch_reads=["prices"])
    host.cluster_id = {"east": "A", "west": "B"}.get
    options, known = beside_options(host, "archive", row.cluster)["@reads"], host.cluster_id(row.cluster)
    assert (options["tideover.cluster.id"], options["kafka.tideover.cluster.id"]) == (known, known)
    assert options["kafka.metric.reporters"] == "tideover.SameCluster"
    assert options["topic:prices"] == "prices"


def test_an_output_on_a_named_cluster_stays_there() -> None:
    assert beside(ROW, output={"topic": "out", "cluster": "east"}) == {"@writes": {"tideover.cluster": "east"}}
    assert beside(AT_HOME, output={"topic": "out", "cluster": "west"})["@writes"]["kafka.bootstrap.servers"] == "w:1"


def test_nothing_is_laid_over_what_is_not_declared() -> None:
    assert beside(ROW) == {}


def declared(host: Any, *queries: str) -> list[Mapping[str, Any]]:
    """What a batch gets for an answer."""
    driver = FakeDriver()
    Desk(driver, host, {f"/data/{each}": each for each in queries or ("archive",)}).declare(7)  # type: ignore[arg-type]
    ((answers, found),) = driver.declared
    assert answers == 7
    return found


@pytest.mark.parametrize(("row", "cluster"), [(ROW, "west"), (None, "east")])
def test_batches_are_declared_where_the_row_is_or_on_the_first_cluster(row: Assignment | None, cluster: str) -> None:
    (known,) = declared(hosting(row, output={"topic": "out"}))
    assert (known["query"], known["writes"], known["reads"], known["follows"]) == ("archive", ["out"], [], True)
    assert (known["home"], known["checkpoint"]) == (["e:1"], "/data/archive")
    assert known["options"]["@writes"]["tideover.cluster"] == cluster


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (replace(ROW, desired=Desired.HELD), "operation op holds archive: tideover show-op op"),
        (replace(ROW, runner="spare"), "archive is assigned to runner spare"),
    ],
)
def test_a_batch_of_a_query_on_its_way_elsewhere_waits(row: Assignment, why: str) -> None:
    (known,) = declared(hosting(row, output={"topic": "out"}))
    assert (known["waits"], known["writes"], "options" in known) == (why, ["out"], False)


def test_a_held_query_holds_up_no_batch_of_another_one() -> None:
    host = hosting(ROW, output={"topic": "out"})
    rows = {"archive": replace(ROW, desired=Desired.HELD), "totals": replace(ROW, query="totals")}
    host.settings.queries["totals"] = host.settings.queries["archive"]
    host.store.assignment = rows.__getitem__
    held, running = declared(host, "archive", "totals")
    assert "waits" in held
    assert running["options"]["@writes"]["tideover.cluster"] == "west"


def test_each_batch_gets_the_place_of_its_own_moment() -> None:
    driver, host = FakeDriver(), hosting(AT_HOME, output={"topic": "out"})
    desk = Desk(driver, host, {"/data/archive": "archive"})  # type: ignore[arg-type]
    desk.declare(1)
    host.store.assignment = lambda query: ROW
    desk.declare(2)
    places = [(answers, found["options"]["@writes"]["tideover.cluster"]) for answers, (found,) in driver.declared]
    assert places == [(1, "east"), (2, "west")]


def test_a_batch_gets_no_answer_while_the_store_is_away() -> None:
    driver, host = FakeDriver(), hosting(ROW)

    def away(query: str) -> Assignment | None:
        raise StoreUnavailable("the store does not answer")

    host.store.assignment = away
    Desk(driver, host, {"/data/archive": "archive"}).declare(7)  # type: ignore[arg-type]
    assert driver.declared == []


def test_a_credential_that_cannot_be_read_is_why_a_batch_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(cluster: object) -> dict[str, str]:
        raise CredentialRefused("no file of the password", hint="")

    monkeypatch.setattr(attached, "cluster_options", refused)
    (known,) = declared(hosting(ROW, output={"topic": "out"}))
    assert known["waits"] == "no file of the password"


def test_an_attendant_that_no_application_started_says_so() -> None:
    with pytest.raises(SparkMissing, match="no application has started this process"):
        ApplicationDriver({})


def supervisor(run_ends_with: Exception | str | None, *, master: str = "local[4]") -> tuple[AttachedSupervisor, Any]:
    """One that has no thread, and a run that has ended."""
    made = object.__new__(AttachedSupervisor)
    made._closing = threading.Event()
    made._hosting = cast(Any, SimpleNamespace(spark_master=master))

    def unrest() -> str | None:
        if isinstance(run_ends_with, Exception):
            raise run_ends_with
        return None

    error = run_ends_with if isinstance(run_ends_with, str) else None
    return made, SimpleNamespace(error=lambda: error, unrest=unrest)


def test_a_run_that_ended_without_an_error_and_is_quiet_has_finished() -> None:
    known, run = supervisor(None)
    assert known._has_finished(run)


def test_a_run_that_ended_with_an_error_has_not_finished() -> None:
    known, run = supervisor("the sink is full")
    assert not known._has_finished(run)


def test_behind_the_end_of_spark_only_executors_elsewhere_are_in_doubt() -> None:
    known, run = supervisor(SparkMissing("the Spark application has ended"))
    assert known._has_finished(run)
    known, run = supervisor(SparkMissing("the Spark application has ended"), master="yarn")
    with pytest.raises(SparkMissing):
        known._has_finished(run)


class FakeTime:
    """Seconds that pass only where one waits for them."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    passed = FakeTime()
    for module in (attached, attendant):
        monkeypatch.setattr(module, "time", passed)
    return passed


def ending(ledger: Any, *, plain: bool = False) -> AttachedSupervisor:
    """One whose application ends, with what is known of its run."""
    made = object.__new__(AttachedSupervisor)
    made._ledger, made._quiet, made._assignment = ledger, threading.Event(), ROW
    made.driver = cast(Any, SimpleNamespace(key=lambda path: path, query=lambda _: None, is_plain=lambda _: plain))
    return made


@pytest.fixture
def restarted() -> Hosting:
    """An attendant that took the place of one that had reported the end of a run."""
    store = MemoryStore(lambda: NOW)
    store.adopt(replace(ROW, epoch=1, placed_epoch=1, mapping=None, operation=None))
    process = SimpleNamespace(
        runner="shop", instance="jvm", host="h", boot_id="b", pid=1, pid_started=1, spark_master="local[4]",
        application_id="app",
        pod=None,
    )  # fmt: skip
    return cast(Hosting, SimpleNamespace(store=store, process=process, now=lambda: NOW))


def states(host: Hosting) -> list[RunState]:
    return [fact.state for fact in host.store.query_facts()]


def test_runs_that_end_late_share_one_wait(fake_time: FakeTime) -> None:
    unfinished = SimpleNamespace(has_begun=True, is_finished=False, awaited=lambda: None)
    never_begun = SimpleNamespace(has_begun=False, awaited_behind_restart=lambda: None)
    hosted = [*(ending(unfinished) for _ in range(3)), *(ending(never_begun) for _ in range(3))]
    attendant._await_next_starts(cast(Any, SimpleNamespace(hosted=lambda: hosted)))
    assert fake_time.now <= 3.2


@pytest.mark.parametrize("plain", [False, True])
def test_a_run_that_finished_before_a_restart_is_awaited_unless_one_runs(restarted: Hosting, plain: bool) -> None:
    row = replace(ROW, epoch=1, placed_epoch=1, mapping=None, operation=None)
    restarted.store.register(runner(runner="shop", instance="jvm"))
    before = QueryReport(restarted, row)
    before.announce()
    before.finished()
    after = ending(QueryReport(restarted, row), plain=plain)
    after.await_next_start(3.0)
    assert states(restarted) == [RunState.FINISHED if plain else RunState.AWAITED]


def test_a_run_that_had_not_finished_before_a_restart_is_not_awaited(restarted: Hosting) -> None:
    row = replace(ROW, epoch=1, placed_epoch=1, mapping=None, operation=None)
    restarted.store.register(runner(runner="shop", instance="jvm"))
    QueryReport(restarted, row).announce()
    ending(QueryReport(restarted, row)).await_next_start(3.0)
    assert states(restarted) == [RunState.STARTING]
