"""What the companion's source is given beside the options of Spark's own."""

import json
from datetime import timedelta
from typing import Any

import pytest

from state.settings.keys import Route, Source, Tideover
from state.settings.topics import home_naming
from streaming.spark.query.kafka_options import identified, switching_options
from tests.simulation.world import settings


def declared(routes: list[dict[str, Any]], *topics: str) -> Tideover:
    given = settings()
    query = given.queries["revenue"]
    query = query.model_copy(update={"sources": {"orders": Source(topics=topics or ("orders",))}})
    known = tuple(Route.model_validate(each) for each in routes)
    return given.model_copy(update={"routes": known, "queries": {"revenue": query}})


def route(topics: Any, here: str = "east", there: str = "west") -> dict[str, Any]:
    return {"from": here, "to": there, "topics": topics}


@pytest.mark.parametrize(
    ("routes", "cluster", "naming"),
    [
        ([route("identity")], "west", {}),
        ([route({"prefix": "east."})], "west", {"prefix": "east."}),
        ([route({"prefix": "east."})], "east", {}),
        ([route({"orders": "there", "same": "same"})], "west", {"names": {"there": "orders"}}),
        ([route({"prefix": "west."}, "west", "east")], "west", {}),
        ([route({"there": "orders"}, "west", "east")], "west", {"names": {"there": "orders"}}),
    ],
)
def test_a_topic_of_another_cluster_has_its_name_at_home(
    routes: list[dict[str, Any]], cluster: str, naming: dict[str, Any]
) -> None:
    given = declared(routes)
    assert home_naming(given, given.queries["revenue"], "orders", cluster) == naming


def test_a_prefix_removed_on_the_way_back_is_known_of_declared_topics() -> None:
    given = declared([route({"prefix": "w."}, "west", "east")], "w.orders", "parcels")
    naming = home_naming(given, given.queries["revenue"], "orders", "west")
    assert naming == {"names": {"orders": "w.orders"}}


def test_options_of_the_source_are_text() -> None:
    plain = switching_options("west", 4, timedelta(seconds=2))
    assert plain == {
        "tideover.cluster": "west", "tideover.placed": "4", "tideover.patience.ms": "2000",
        "tideover.home.offsets": "false", "tideover.catch.up.batch": "0",
    }  # fmt: skip
    naming = {"west": {"prefix": "east."}}
    more = switching_options("west", 4, timedelta(0), naming=naming, home_offsets=True, catch_up_batch=500)
    assert json.loads(more["tideover.topics"]) == naming
    assert (more["tideover.home.offsets"], more["tideover.catch.up.batch"]) == ("true", "500")


def test_driver_and_consumers_know_the_id_of_their_cluster() -> None:
    assert identified({"subscribe": "orders"}, "east", None) == {"subscribe": "orders"}
    known = identified({"Kafka.Metric.Reporters": "mine.Reporter"}, "east", "A")
    assert known == {
        "Kafka.Metric.Reporters": "mine.Reporter,tideover.SameCluster",
        "tideover.cluster": "east", "tideover.cluster.id": "A",
        "kafka.tideover.cluster": "east", "kafka.tideover.cluster.id": "A",
    }  # fmt: skip
    assert identified({}, "east", "A")["kafka.metric.reporters"] == "tideover.SameCluster"
