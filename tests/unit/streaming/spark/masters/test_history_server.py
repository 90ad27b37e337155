"""What a history server lists, and the archive of logs that it hands over."""

import pytest

from streaming.errors import ServiceTrouble
from streaming.spark.masters import history_server
from streaming.spark.masters.history_server import applications, event_logs
from tests.json_server import json_server

LISTED = [
    {
        "id": "application_1_0007",
        "name": "shop",
        "attempts": [
            {"attemptId": "1", "startTimeEpoch": 5, "completed": True, "appSparkVersion": "4.2.0"},
            {"attemptId": "2", "startTimeEpoch": 9, "completed": False, "appSparkVersion": "4.2.0"},
        ],
    },
    {"id": "local-1", "name": "old", "attempts": [{"startTimeEpoch": 5, "completed": True}]},
    {"id": "local-2", "name": "odd"},
]


def test_applications_are_listed_by_their_newest_attempt() -> None:
    with json_server() as server:
        server.answers["/api/v1/applications"] = LISTED
        shop, old, odd = applications(f"{server.url}/")
        assert (shop.attempt, shop.state, shop.is_running, shop.spark) == ("2", "incomplete", True, "4.2.0")
        assert shop.tracking_url == f"{server.url}/history/application_1_0007/"
        assert (old.attempt, old.state, old.is_running, old.spark) == (None, "completed", False, None)
        assert (odd.state, odd.is_running) == ("unknown", False)


def test_the_logs_of_the_newest_attempt_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    with json_server() as server:
        server.answers["/api/v1/applications"] = LISTED
        server.answers["/api/v1/applications/application_1_0007/2/logs"] = b"archive"
        server.answers["/api/v1/applications/local-1/logs"] = b"another"
        shop, old, _ = applications(server.url)
        assert (event_logs(server.url, shop), event_logs(server.url, old)) == (b"archive", b"another")
        monkeypatch.setattr(history_server, "MOST_BYTES", 6)
        with pytest.raises(ServiceTrouble, match="its answer has more than 6 bytes"):
            event_logs(server.url, shop)


def test_a_bad_answer_is_one_sentence() -> None:
    with json_server() as server:
        server.answers["/api/v1/applications"] = {"error": "x"}
        with pytest.raises(ServiceTrouble, match="does not answer as Spark's history server: it lists no applications"):
            list(applications(server.url))
