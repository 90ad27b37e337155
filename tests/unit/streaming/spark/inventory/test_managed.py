"""What cluster managers, drivers and a history server add to each application."""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.errors import ServiceTrouble
from streaming.spark.inventory.candidates import Managed
from streaming.spark.inventory.managed import parse_source, read_managed
from tests.json_server import JsonServer, json_server

ID = "application_1_0007"
STARTED = {"Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent", "id": "q-1", "name": "a"}
LOG = "\n".join(
    json.dumps(each, separators=(",", ":"))
    for each in (
        {"Event": "SparkListenerLogStart", "Spark Version": "4.2.0"},
        {"Event": "SparkListenerApplicationStart", "App Name": "shop", "App ID": ID},
        STARTED,
    )
)
LIST = "/ws/v1/cluster/apps?applicationTypes=SPARK&deSelects=resourceRequests"


@pytest.fixture
def yarn() -> Iterator[JsonServer]:
    """With one application, whose driver is reached by its proxy."""
    with json_server() as made:
        row = {"id": ID, "name": "shop", "state": "RUNNING", "finalStatus": "UNDEFINED"}
        made.answers[LIST] = {"apps": {"app": [row | {"trackingUrl": f"{made.url}/proxy/{ID}/"}]}}
        made.answers[f"/proxy/{ID}/api/v1/version"] = {"spark": "4.2.0"}
        yield made


def driver(yarn: JsonServer, **conf: str) -> Managed:
    settings = [[key.replace("__", "."), value] for key, value in conf.items()]
    yarn.answers[f"/proxy/{ID}/api/v1/applications/{ID}/environment"] = {"sparkProperties": settings}
    (found,) = read_managed("yarn", yarn.url)
    return found


@pytest.mark.parametrize("kind", ["yarn", "standalone", "history"])
def test_a_source_is_a_kind_and_an_address(kind: str) -> None:
    assert parse_source(f"{kind}:http://one:80") == (kind, "http://one:80")
    assert parse_source(f"{kind}:https://one,https://two") == (kind, "https://one,https://two")


@pytest.mark.parametrize(
    "text", ["", "yarn", "yarn:", "yarn:one:8088", "k8s:http://one", "http://one:8088", "yarn:http://"]
)
def test_another_source_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"names no source.*yarn:http://rm:8088, standalone:http://master:8080, history:"
    ):
        parse_source(text)


def test_a_driver_that_runs_leads_to_its_event_log(yarn: JsonServer, tmp_path: Path) -> None:
    folder = {"spark__eventLog__enabled": "true", "spark__eventLog__dir": tmp_path.as_uri()}
    assert driver(yarn, **folder).why == f"{tmp_path.as_uri()} has no log of it"
    (tmp_path / "application_2_0001").write_text(LOG.replace(ID, "application_2_0001"), encoding="utf-8")
    assert driver(yarn, **folder).why == f"{tmp_path.as_uri()} has no log of it"
    (tmp_path / f"{ID}_1").write_text(LOG, encoding="utf-8")
    found = driver(yarn, **folder)
    assert found.why is None
    assert found.logged is not None
    assert (found.logged.name, found.logged.spark, list(found.logged.queries)) == ("shop", "4.2.0", ["q-1"])


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        ({}, "it writes no event log (spark.eventLog.enabled): give its checkpoints"),
        (
            {"spark__eventLog__enabled": "true", "spark__eventLog__dir": "hdfs:///logs"},
            "its event log is in hdfs:///logs",
        ),
        (
            {"spark__eventLog__enabled": "true", "spark__eventLog__dir": "file:/nowhere"},
            "its event log is in file:/nowhere",
        ),
    ],
)
def test_a_driver_without_a_log_here_gives_its_settings(yarn: JsonServer, conf: dict[str, str], why: str) -> None:
    found = driver(yarn, spark__plugins="their.Plugin", **conf)
    assert found.logged is not None
    assert (found.logged.conf["spark.plugins"], found.logged.spark) == ("their.Plugin", "4.2.0")
    assert (found.why or "").startswith(why)


@pytest.mark.parametrize("answer", [404, b"<html>", {"sparkProperties": None}, {"sparkProperties": [["a"]]}, [], {}])
def test_a_driver_that_answers_badly_is_listed_with_one_sentence(yarn: JsonServer, answer: object) -> None:
    yarn.answers[f"/proxy/{ID}/api/v1/applications/{ID}/environment"] = answer
    (found,) = read_managed("yarn", yarn.url)
    assert found.logged is None
    assert f"{yarn.url}/proxy/{ID}" in (found.why or "")
    assert "\n" not in (found.why or "")


def test_a_manager_that_answers_badly_is_an_error(yarn: JsonServer) -> None:
    for source in ("yarn", "standalone", "history"):
        with pytest.raises(ServiceTrouble):
            read_managed(source, "http://127.0.0.1:1")


def test_a_standalone_master_gives_names_and_no_drivers() -> None:
    with json_server() as master:
        rows = {"activeapps": [{"id": "app-1", "name": "shop", "state": "RUNNING"}], "completedapps": []}
        master.answers["/json/"] = rows
        (found,) = read_managed("standalone", master.url)
    assert (found.listed.name, found.logged) == ("shop", None)
    assert found.why == "the master gives no address of its driver: give its event log"


def archive(**files: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as whole:
        for name, text in files.items():
            whole.writestr(name, text)
    return made.getvalue()


@pytest.mark.parametrize(
    ("logs", "why"),
    [
        (archive(**{ID: LOG}), None),
        (archive(**{f"eventlog_v2_{ID}/events_1_{ID}": LOG}), None),
        (archive(), "the history server hands over no event log"),
        (b"<html>", "the history server hands over no archive of its event log"),
        (archive(**{f"{ID}.lz4": "x"}), "is compressed by lz4; only plain files and zstd are read"),
        (404, "answers 404"),
    ],
)
def test_a_history_server_hands_over_the_logs(logs: bytes | int, why: str | None) -> None:
    with json_server() as server:
        attempt = {"startTimeEpoch": 1, "completed": True}
        server.answers["/api/v1/applications"] = [{"id": ID, "name": "shop", "attempts": [attempt]}]
        server.answers[f"/api/v1/applications/{ID}/logs"] = logs
        (found,) = read_managed("history", server.url)
        assert (found.why or "").endswith(why or ""), found.why
        assert (found.logged is not None) == (why is None)
        if found.logged is not None:
            assert found.logged.where == f"{server.url}/history/{ID}/"
            assert list(found.logged.queries) == ["q-1"]
