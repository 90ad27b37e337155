"""What YARN's answers prove of an attempt: only what its node has seen."""

from collections.abc import Iterator
from typing import Any

import pytest

from streaming.errors import ServiceTrouble
from streaming.spark.masters.yarn import application_over, applications, attempt_ended, attempt_of
from tests.json_server import JsonServer, attempt_xml, json_server

APPLICATION, ATTEMPT = "application_1700000000000_0007", "appattempt_1700000000000_0007_000001"
PATH = f"/ws/v1/cluster/apps/{APPLICATION}/appattempts"
CONTAINER, BEGAN = "container_1700000000000_0007_01_000001", 1_700_000_100_000
EXITED = f"AM Container for {ATTEMPT} exited with  exitCode: {{}}\nFailing this attempt."


@pytest.fixture
def manager() -> Iterator[JsonServer]:
    with json_server() as made:
        yield made


@pytest.fixture
def node(manager: JsonServer) -> Iterator[JsonServer]:
    """The NodeManager of the attempt's container, which it has begun and has no longer."""
    with json_server() as made:
        made.answers["/ws/v1/node/info"] = {"nodeInfo": {"id": "one:45454", "nmStartupTime": BEGAN - 3_600_000}}
        row = {
            "appAttemptId": ATTEMPT, "nodeHttpAddress": made.address, "nodeId": "one:45454", "containerId": CONTAINER,
            "startTime": BEGAN,
        }  # fmt: skip
        manager.answers[PATH] = {"appAttempts": {"appAttempt": [row]}}
        say(manager, "KILLED", "Application killed by user.")
        yield made


def say(manager: JsonServer, state: str | None, diagnostics: str = "") -> None:
    manager.answers[f"{PATH}/{ATTEMPT}"] = attempt_xml(state, diagnostics)


def test_the_id_of_an_attempt_is_as_yarn_writes_it() -> None:
    assert attempt_of(APPLICATION, "1") == ATTEMPT


@pytest.mark.parametrize("code", [0, 1, 137, 143, -104, -105])
def test_an_exit_code_that_the_node_has_seen_proves_the_end(manager: JsonServer, code: int) -> None:
    say(manager, "FAILED", EXITED.format(code))
    ending = attempt_ended(manager.url, ATTEMPT)
    assert (ending.is_proven, ending.detail) == (True, f"YARN says that {ATTEMPT} ended with exit code {code}")


@pytest.mark.parametrize("code", [-100, -102, -107, -1000])
def test_an_exit_code_that_yarn_makes_up_for_a_lost_node_proves_nothing(manager: JsonServer, code: int) -> None:
    say(manager, "FAILED", EXITED.format(code))
    assert not attempt_ended(manager.url, ATTEMPT).is_proven


@pytest.mark.parametrize("state", ["LAUNCHED", "RUNNING", "FINISHING", None])
def test_an_attempt_that_is_not_over_has_not_ended(manager: JsonServer, state: str | None) -> None:
    say(manager, state, EXITED.format(137))
    assert attempt_ended(manager.url, ATTEMPT).detail == f"YARN says that {ATTEMPT} is {state}"
    assert not attempt_ended(manager.url, ATTEMPT).is_proven


def test_the_exit_code_of_another_attempt_is_not_taken(manager: JsonServer) -> None:
    say(manager, "FAILED", EXITED.format(137).replace("000001 exited", "000002 exited"))
    assert not attempt_ended(manager.url, ATTEMPT).is_proven


def test_a_killed_container_that_its_node_has_no_longer_has_ended(manager: JsonServer, node: JsonServer) -> None:
    ending = attempt_ended(manager.url, ATTEMPT)
    assert ending.is_proven
    assert ending.detail.endswith(f"its node {node.address}, which started its container, has it no longer")


@pytest.mark.parametrize(("state", "proven"), [("RUNNING", False), ("KILLING", False), ("DONE", True)])
def test_a_killed_container_that_its_node_has_is_over_once_done(
    manager: JsonServer, node: JsonServer, state: str, proven: bool
) -> None:
    node.answers[f"/ws/v1/node/containers/{CONTAINER}"] = {"container": {"state": state}}
    ending = attempt_ended(manager.url, ATTEMPT)
    assert (ending.is_proven, ending.detail.endswith(f"says that its container is {state}")) == (proven, True)


@pytest.mark.parametrize(
    ("info", "sentence"),
    [
        ({"nodeInfo": {"id": "one:45454", "nmStartupTime": BEGAN + 5}}, "was started again since"),
        ({"nodeInfo": {"id": "one:45454", "nmStartupTime": BEGAN - 30_000}}, "was started again since"),
        ({"nodeInfo": {"id": "one:45454"}}, "was started again since"),
        ({"nodeInfo": {"id": "two:45454", "nmStartupTime": 1}}, "it is two:45454, and the container was on one:45454"),
        (404, "answers 404"),
        (500, "answers 500"),
        (b"<html>", "does not answer as a NodeManager"),
        ([], "its answer is no object"),
    ],
)
def test_a_node_that_may_not_know_the_container_proves_nothing(
    manager: JsonServer, node: JsonServer, info: Any, sentence: str
) -> None:
    node.answers["/ws/v1/node/info"] = info
    ending = attempt_ended(manager.url, ATTEMPT)
    assert (ending.is_proven, sentence in ending.detail) == (False, True), ending.detail


@pytest.mark.parametrize(
    "row",
    [
        {"appAttemptId": ATTEMPT, "nodeHttpAddress": "", "nodeId": "", "containerId": "", "startTime": 0},
        {"appAttemptId": ATTEMPT},
        {},
        None,
    ],
)
def test_a_user_who_may_not_see_the_node_gets_no_proof(manager: JsonServer, row: Any) -> None:
    say(manager, "KILLED")
    manager.answers[PATH] = {"appAttempts": {"appAttempt": [row]}}
    assert not attempt_ended(manager.url, ATTEMPT).is_proven


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (404, f"YARN does not know {ATTEMPT}"),
        (401, "answers 401"),
        (307, "answers 307"),
        (503, "answers 503"),
        (b"<html>", "does not answer as a ResourceManager"),
        (b"<html/>", "its answer is a html"),
        (b"<!DOCTYPE a><appAttempt/>", "it declares types"),
        ({}, "does not answer as a ResourceManager"),
        (b"<appAttempt/>", f"{ATTEMPT} is None"),
    ],
)
def test_a_bad_answer_proves_nothing_and_is_one_sentence(manager: JsonServer, answer: Any, sentence: str) -> None:
    manager.answers[f"{PATH}/{ATTEMPT}"] = answer
    ending = attempt_ended(manager.url, ATTEMPT)
    assert (ending.is_proven, sentence in ending.detail, "\n" in ending.detail) == (False, True, False), ending.detail


def test_a_standby_or_dead_manager_is_passed_over(manager: JsonServer) -> None:
    say(manager, "FAILED", EXITED.format(137))
    with json_server() as standby:
        standby.answers[f"{PATH}/{ATTEMPT}"] = 307
        assert attempt_ended(f"http://127.0.0.1:1, {standby.url},{manager.url}/", ATTEMPT).is_proven
    assert not attempt_ended("http://127.0.0.1:1", ATTEMPT).is_proven


@pytest.mark.parametrize("text", [APPLICATION, "app-2026-0001", "appattempt_x_1_1", f"{ATTEMPT}/../x"])
def test_only_an_attempt_is_looked_for(manager: JsonServer, text: str) -> None:
    assert "is no attempt" in attempt_ended(manager.url, text).detail


def test_an_application_is_over_in_three_states(manager: JsonServer) -> None:
    for state in ("FINISHED", "FAILED", "KILLED", "RUNNING", "ACCEPTED"):
        manager.answers[f"/ws/v1/cluster/apps/{APPLICATION}"] = {"app": {"state": state}}
        ending = application_over(manager.url, APPLICATION)
        over = state in {"FINISHED", "FAILED", "KILLED"}
        assert (ending.is_proven, ending.detail) == (over, f"YARN says that {APPLICATION} is {state}")
    assert application_over(manager.url, "application_1_2").detail == "YARN does not know application_1_2"


def test_applications_are_listed_with_where_their_driver_is(manager: JsonServer) -> None:
    rows = [
        {"id": "a_1", "name": "shop", "state": "RUNNING", "finalStatus": "UNDEFINED", "trackingUrl": "http://rm/proxy/a_1/"},
        {"id": "a_2", "name": "old", "state": "FINISHED", "finalStatus": "FAILED"},
    ]  # fmt: skip
    path = "/ws/v1/cluster/apps?applicationTypes=SPARK&deSelects=resourceRequests"
    manager.answers[path] = {"apps": {"app": rows}}
    running, over = applications(manager.url)
    assert (running.name, running.state, running.is_running) == ("shop", "RUNNING", True)
    assert (running.tracking_url, running.source) == ("http://rm/proxy/a_1/", f"yarn:{manager.url}")
    assert (over.id, over.state, over.is_running, over.tracking_url) == ("a_2", "FINISHED (FAILED)", False, None)
    manager.answers[path] = {"apps": None}
    assert list(applications(manager.url)) == []
    manager.answers[path] = b"<html>"
    with pytest.raises(ServiceTrouble, match="does not answer as a ResourceManager"):
        list(applications(manager.url))
