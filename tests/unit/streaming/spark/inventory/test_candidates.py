"""What is ready to be attached, what has to be added, and what speaks against it."""

from typing import Any

import pytest

from streaming.spark.inventory.candidates import Candidate, Managed, candidates_of, configuration_of, fit_name
from streaming.spark.inventory.checkpoints import FoundCheckpoint
from streaming.spark.inventory.event_logs import LoggedApplication, LoggedQuery, LoggedSource
from streaming.spark.masters.listing import ListedApplication

ORDERS = LoggedSource(way="Subscribe", what="orders")


def checkpoint(path: str = "/data/archive", **changes: object) -> FoundCheckpoint:
    known = {"path": path, "query_id": "id-1", "batch": 4, "sources": (("orders",),)} | changes
    return FoundCheckpoint(**known)  # type: ignore[arg-type]


def log(*sources: LoggedSource, name: str = "shop", spark: str | None = "4.2.0", **conf: str) -> LoggedApplication:
    query = LoggedQuery(id="id-1", name="archive", sources=sources or (ORDERS,), sink="ForeachBatchSink")
    settings = {key.replace("__", "."): value for key, value in conf.items()}
    return LoggedApplication(where="/events/1", name=name, spark=spark, conf=settings, queries={"id-1": query})


def one(*found: FoundCheckpoint, logs: tuple[LoggedApplication, ...] = (), name: str | None = None) -> Candidate:
    (candidate,) = candidates_of(found, logs, name)
    return candidate


def test_a_checkpoint_and_its_log_are_joined_by_the_query_id() -> None:
    found = one(checkpoint("/data/x1"), logs=(log(),))
    assert (found.query, found.application, found.checkpoint, found.spark) == ("archive", "shop", "/data/x1", "4.2.0")
    assert found.ready is True
    assert found.add == ("start it by tideover submit, or add the jar and the two settings",)


def test_without_a_log_the_application_has_to_be_named() -> None:
    assert one(checkpoint()).ready is None
    assert one(checkpoint(), name="shop").ready is True


def test_a_log_without_its_checkpoint_is_not_known_enough() -> None:
    found = one(logs=(log(),))
    assert (found.ready, found.topics) == (None, (("orders",),))
    assert found.unknown == ("its checkpoint is not known: give the folder that holds it",)


@pytest.mark.parametrize(
    ("logs", "why"),
    [
        ((log(spark=None),), "does not say which Spark"),
        ((log(LoggedSource(way="Assign", what='{"orders":[0]}')),), "by assign"),
        ((log(spark__sql__streaming__checkpointFileManagerClass="their.Manager"),), "is their.Manager"),
        ((log(), log(name="other")), "2 applications have run it"),
    ],
)
def test_a_reason_against_an_application_is_named(logs: tuple[LoggedApplication, ...], why: str) -> None:
    found = one(checkpoint(), logs=logs)
    assert found.ready is False
    assert any(why in each for each in found.against), found.against


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"trouble": "it is half written"}, "it is half written"),
        ({"sources": (), "other_sources": 1}, "it reads no Kafka topic"),
        ({"path": "/tmp/temporary-1234-ab"}, "names no checkpointLocation"),
    ],
)
def test_a_reason_against_a_checkpoint_is_named(changes: dict[str, object], why: str) -> None:
    found = one(checkpoint(**changes), name="shop")  # type: ignore[arg-type]
    assert found.ready is False
    assert any(why in each for each in found.against), found.against


def test_copies_of_a_checkpoint_are_refused_as_which_one_counts_is_unknown() -> None:
    found = candidates_of([checkpoint("/a/one"), checkpoint("/b/one")], [], "shop")
    assert [each.ready for each in found] == [False, False]
    assert len({each.query for each in found}) == 2


def test_a_query_that_never_committed_is_not_known() -> None:
    assert one(checkpoint(batch=None, sources=()), name="shop").unknown == ("it has committed no batch: run it once",)


def test_a_spark_that_was_never_probed_is_not_known() -> None:
    found = one(checkpoint(), logs=(log(spark="4.9.0"),))
    assert (found.ready, [each for each in found.unknown if "Spark 4.9.0" in each]) == (None, list(found.unknown))
    assert one(checkpoint(), logs=(log(spark="3.4.1"),)).ready is True


def test_the_plugin_is_not_added_twice() -> None:
    assert one(checkpoint(), logs=(log(spark__plugins="a.B,tideover.AttachPlugin"),)).add == ()


@pytest.mark.parametrize(
    ("sink", "note"),
    [
        ("org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable@1", "unless output declares its topic"),
        ("ForeachBatchSink", "a Kafka client that it opens itself is out of reach of a move"),
    ],
)
def test_a_sink_that_a_move_does_not_reach_is_noted(sink: str, note: str) -> None:
    known = log()
    known.queries["id-1"] = LoggedQuery(id="id-1", name="copy", sources=(ORDERS,), sink=sink)
    (found,) = one(checkpoint(), logs=(known,)).notes
    assert found.endswith(note)


def test_the_configuration_has_runners_and_queries_of_what_can_be_attached() -> None:
    found = candidates_of([checkpoint(), checkpoint("/data/bad", query_id="id-2", trouble="broken")], [log()], "shop")
    assert configuration_of(found, ("east", "west")) == {
        "runners": {"shop": {}},
        "queries": {
            "archive": {
                "attach": "shop",
                "checkpoint": "/data/archive",
                "sources": {"orders": {"topics": ["orders"]}},
                "clusters": ["east", "west"],
            }
        },
    }


def test_a_pattern_is_declared_as_a_pattern() -> None:
    known = log(LoggedSource(way="SubscribePattern", what="o.*"))
    found = candidates_of([checkpoint(sources=(("orders", "others"),))], [known])
    queries = configuration_of(found, ("east", "west"))["queries"]
    assert queries["archive"]["sources"] == {"source": {"pattern": "o.*"}}  # type: ignore[index]


def test_a_name_that_the_configuration_does_not_take_is_changed_and_said() -> None:
    found = one(checkpoint(), logs=(log(name="Shop of Anna"),))
    assert found.add[-1].startswith("spark.tideover.application=Shop-of-Anna")
    assert list(configuration_of([found], ("east", "west"))["runners"]) == ["Shop-of-Anna"]
    assert fit_name("-- ") == ""


def test_a_query_that_was_moved_is_not_known_to_start() -> None:
    made = one(checkpoint(moved_to="west"), name="shop")
    assert made.ready is None
    assert "moved it to west" in made.unknown[0]


def test_a_released_query_begins_on_the_cluster_of_its_release() -> None:
    made = one(checkpoint(released_on="west"), name="shop")
    assert (made.ready, made.notes) == (
        True, ("Tideover has released it on west: its clusters begin with that one",)
    )  # fmt: skip
    (query,) = configuration_of([made], ["east", "west"])["queries"].values()
    assert query["clusters"] == ["west", "east"]  # type: ignore[index]
    assert configuration_of([made], ["east", "north"])["queries"] == {}


def listed(name: str | None = "shop", **changes: Any) -> ListedApplication:
    known = {
        "source": "yarn:http://rm", "id": "application_1_0007", "name": name, "state": "RUNNING", "is_running": True,
        "tracking_url": "http://rm/proxy/application_1_0007/",
    } | changes  # fmt: skip
    return ListedApplication(**known)


def test_a_query_has_the_state_of_the_application_that_runs_it() -> None:
    found = log()
    found.id = "application_1_0007"
    (candidate,) = candidates_of((checkpoint(),), (found,), None, [Managed(listed(), None, "no log")])
    assert (candidate.query, candidate.application_id, candidate.ready) == ("archive", "application_1_0007", True)
    assert (candidate.application_state, candidate.tracking_url) == ("RUNNING", listed().tracking_url)


def test_an_application_whose_log_is_another_ones_is_not_joined() -> None:
    """Names are no proof."""
    found = log()
    found.id = "application_1_0008"
    of_log, alone = candidates_of((checkpoint(),), (found,), None, [Managed(listed(), None, "no log")])
    assert (of_log.application_id, of_log.application_state) == ("application_1_0008", None)
    assert (alone.query, alone.application_id, alone.ready) == ("shop", "application_1_0007", None)
    assert alone.unknown == ("its queries are not known: no log",)


def test_only_what_runs_and_may_have_queries_is_there_without_them() -> None:
    batch = LoggedApplication(where="x", name="batch", id="application_1_0007", spark="4.2.0")
    assert candidates_of((), (), None, [Managed(listed(is_running=False), None, "ended")]) == ()
    assert candidates_of((), (), None, [Managed(listed(), batch)]) == ()
    twice = [Managed(listed(), None, "no log"), Managed(listed(), None, "no log")]
    assert [each.query for each in candidates_of((), (), None, twice)] == ["shop"]
    (nameless,) = candidates_of((), (), None, [Managed(listed(None), None, "no log")])
    assert (nameless.query, nameless.application) == ("application_1_0007", None)


def test_settings_of_a_driver_without_a_log_speak_against_it() -> None:
    driver = log(spark="4.2.0", spark__sql__streaming__checkpointFileManagerClass="their.Manager")
    driver.queries, driver.id = {}, "application_1_0007"
    (found,) = candidates_of((), (), None, [Managed(listed(), driver, "no log")])
    assert (found.ready, found.spark, found.query) == (False, "4.2.0", "shop")
    assert configuration_of([found], ["east", "west"]) == {"runners": {}, "queries": {}}
