"""What a standalone master's answers prove, and what they list."""

from collections.abc import Iterator
from typing import Any

import pytest

from streaming.errors import ServiceTrouble
from streaming.spark.masters.standalone import application_ended, applications
from tests.json_server import JsonServer, json_server


@pytest.fixture
def master() -> Iterator[JsonServer]:
    with json_server() as made:
        yield made


@pytest.mark.parametrize(
    ("answer", "proven", "detail"),
    [
        ({"activeapps": [{"id": "app-1"}], "completedapps": []}, False, "app-1 is active"),
        ({"completedapps": [{"id": "app-1", "state": "KILLED"}]}, True, "ended (KILLED)"),
        ({"activeapps": [], "completedapps": []}, False, "does not know app-1"),
        ({"activeapps": None, "completedapps": [None, "app-1"]}, False, "does not know app-1"),
        ([], False, "its answer is no object"),
        (b"<html>", False, "did not answer"),
        (500, False, "answers 500"),
    ],
)
def test_the_master_shows_whether_an_application_ended(
    master: JsonServer, answer: Any, proven: bool, detail: str
) -> None:
    master.answers["/json/"] = answer
    ending = application_ended(f"{master.url}/", "app-1")
    assert (ending.is_proven, detail in ending.detail) == (proven, True), ending.detail


def test_a_master_that_does_not_answer_proves_nothing() -> None:
    ending = application_ended("http://127.0.0.1:1", "app-1")
    assert not ending.is_proven
    assert "the master at http://127.0.0.1:1 did not answer" in ending.detail


def test_applications_are_listed_and_have_no_address(master: JsonServer) -> None:
    rows = {"activeapps": [{"id": "app-2", "name": "shop", "state": "RUNNING"}]}
    master.answers["/json/"] = rows | {"completedapps": [{"id": "app-1", "name": "old", "state": "FINISHED"}]}
    running, over = applications(master.url)
    assert (running.id, running.name, running.is_running, running.tracking_url) == ("app-2", "shop", True, None)
    assert (over.id, over.state, over.is_running, over.source) == (
        "app-1", "FINISHED", False, f"standalone:{master.url}",
    )  # fmt: skip
    master.answers["/json/"] = {"status": "UP"}
    with pytest.raises(ServiceTrouble, match="does not answer as a standalone master: it lists no applications"):
        list(applications(master.url))
