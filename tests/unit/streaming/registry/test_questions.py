"""Equal bytes with another registry behind them are other records.

The registries are small HTTP servers of the same API.
"""

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.load import load
from orchestrator.config.masks import masked
from orchestrator.decide.gates.readiness import schemas_agree
from orchestrator.errors import ConfigError
from state.settings.keys import SchemaRegistry, Tideover
from streaming.errors import RegistryUnreachable
from streaming.registry.client import RegistryClient
from streaming.registry.questions import VALID_SECONDS, SchemaQuestions
from streaming.registry.wire import Agreement, Schema, SchemaAnswers, SchemaFinding, ids_of, schema_id
from tests.memory_log import MemoryCluster
from tests.unit.orchestrator.decide.gates.test_readiness import NOW, READY

AT = datetime(2026, 3, 1, tzinfo=UTC)
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
SPACED = '{"name":"Order","type":"record","fields":[{"type":"long","name":"id"}]}'
REFUND = '{"type": "record", "name": "Refund", "fields": [{"name": "id", "type": "long"}]}'


class Registry:
    """Schemas by id, and what was requested; ``status`` other than 200 answers everything."""

    def __init__(self, schemas: Mapping[int, str]) -> None:
        self.schemas = dict(schemas)
        self.requested: list[str] = []
        self.credentials: list[str | None] = []
        self.status = 200
        self.url = ""


@contextmanager
def serving(schemas: Mapping[int, str]) -> Iterator[Registry]:
    registry = Registry(schemas)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requested.append(self.path)
            registry.credentials.append(self.headers.get("Authorization"))
            text = registry.schemas.get(int(self.path.rpartition("/")[2]))
            status = registry.status if registry.status != 200 or text is not None else 404
            body = json.dumps({"schema": text} if status == 200 else {"error_code": 40403, "message": "none"}).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()


def wire(number: int, body: bytes = b"x") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


def cluster(name: str, topic: str, *values: bytes | None, key: bytes | None = None) -> MemoryCluster:
    made = MemoryCluster(name)
    made.create(topic, 1)
    for index, value in enumerate(values):
        made.append_entry(topic, 0, key, value, 1_000 + index)
    return made


def settings(east: str | None, west: str | None, *, rewrites: bool = False) -> Tideover:
    declared = {"east": east, "west": west}
    return Tideover.model_validate(
        {
            "store": "sqlite://",
            "clusters": {
                name: {"bootstrap": [f"{name}:1"], **({"schema_registry": {"url": url}} if url else {})}
                for name, url in declared.items()
            },
            "routes": [{"from": "east", "to": "west", "rewrites_schema_ids": rewrites}],
        }
    )


def finding(
    east: tuple[MemoryCluster, str | None], west: tuple[MemoryCluster, str | None], *, rewrites: bool = False
) -> tuple[Agreement, str] | None:
    clusters = {"east": east[0], "west": west[0]}
    questions = SchemaQuestions(settings(east[1], west[1], rewrites=rewrites), clusters.__getitem__, lambda: 1.0)
    found = questions.of("east", "west", {"orders": "orders"}, lambda: AT).findings
    assert len(found) < 2
    return (found[0].agreement, found[0].text) if found else None


def test_an_id_that_means_two_schemas_is_named_although_the_bytes_are_equal() -> None:
    with serving({7: ORDER}) as here, serving({7: REFUND}) as there:
        one, other = cluster("east", "orders", wire(7), wire(7)), cluster("west", "orders", wire(7), wire(7))
        assert finding((one, here.url), (other, there.url)) == (
            Agreement.DIFFER, "value of orders: id 7 means one schema on east and another one on west",
        )  # fmt: skip
        there.schemas[7] = SPACED
        assert finding((one, here.url), (other, there.url)) == (
            Agreement.AGREE, "value of orders: schema id 7 mean the same on both",
        )  # fmt: skip
        del there.schemas[7]
        assert finding((one, here.url), (other, there.url)) == (
            Agreement.DIFFER, "value of orders: id 7 is not in the registry of west",
        )  # fmt: skip


def test_ids_that_the_replicator_rewrites_must_mean_the_same_schemas() -> None:
    with serving({7: ORDER}) as here, serving({31: SPACED, 32: REFUND}) as there:
        one = cluster("east", "orders", wire(7))
        said = finding((one, here.url), (cluster("west", "orders", wire(31)), there.url), rewrites=True)
        assert said == (Agreement.AGREE, "value of orders: schema ids 7, 31 mean the same on both")
        said = finding((one, here.url), (cluster("west", "orders", wire(32)), there.url), rewrites=True)
        assert said == (
            Agreement.DIFFER, "value of orders: id 32 on west means none of the schemas of east",
        )  # fmt: skip
        said = finding((one, here.url), (cluster("west", "orders", wire(31)), there.url))
        assert said is not None
        assert said[0] is Agreement.DIFFER, "nobody said that ids are rewritten"


@pytest.mark.parametrize("without", ["east", "west", "both"])
def test_without_a_registry_what_ids_mean_is_unknown_and_said(without: str) -> None:
    with serving({7: ORDER}) as registry:
        urls = {"east": registry.url, "west": f"{registry.url}/"}
        for name in urls if without == "both" else [without]:
            urls[name] = ""
        said = finding(
            (cluster("east", "orders", wire(7)), urls["east"]), (cluster("west", "orders", wire(7)), urls["west"])
        )
        names = "east and west" if without == "both" else without
        text = (
            f"records carry schema id 7, and no schema_registry of {names} is configured: whether an id means the same"
        )
        assert said == (Agreement.NOT_REQUESTED, f"value of orders: {text} on both is unknown")


def test_one_registry_for_both_clusters_is_not_queried() -> None:
    with serving({}) as registry:
        said = finding(
            (cluster("east", "orders", wire(7)), registry.url), (cluster("west", "orders", wire(7)), f"{registry.url}/")
        )
        assert said == (Agreement.AGREE, "value of orders: schema id 7 are of one registry")


def test_a_registry_that_does_not_answer_leaves_it_unknown() -> None:
    with serving({7: ORDER}) as here, serving({7: ORDER}) as there:
        there.status = 503
        said = finding((cluster("east", "orders", wire(7)), here.url), (cluster("west", "orders", wire(7)), there.url))
        assert said is not None
        assert said[0] is Agreement.UNKNOWN
        assert f"west: {there.url} answers 503" in said[1]


@pytest.mark.parametrize(
    ("values", "ids"),
    [
        ([wire(7), wire(9), None], {7, 9}),
        ([wire(7), b'{"id": 1}'], set()),
        ([(5).to_bytes(8, "big")], set()),
        ([b"\0\0\0\7"], set()),
        ([None], set()),
        ([], set()),
    ],
)
def test_ids_are_taken_only_where_every_record_has_one(values: list[bytes | None], ids: set[int]) -> None:
    """A number of eight bytes begins with a zero, too."""
    assert ids_of(values) == ids
    assert schema_id(wire(7)) == 7


def test_records_without_ids_need_no_registry() -> None:
    assert finding((cluster("east", "orders", b"a"), None), (cluster("west", "orders", b"a"), None)) is None


def test_the_password_goes_to_the_configured_address_alone(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    with serving({7: ORDER}) as registry:
        declared = SchemaRegistry.model_validate(
            {"url": registry.url, "username": "ann", "password": f"file:{tmp_path / 'password'}"}
        )
        client = RegistryClient(declared)
        assert client.schema(7, timeout=5) == Schema("AVRO", ORDER)
        assert client.schema(7, timeout=5) == Schema("AVRO", ORDER)
        assert registry.credentials == [f"Basic {base64.b64encode(b'ann:secret').decode()}"], "asked once"
        registry.status = 302
        with pytest.raises(RegistryUnreachable, match="answers 302") as refused:
            client.schema(8, timeout=5)
        assert "secret" not in str(refused.value)


def test_findings_stand_for_a_while() -> None:
    now = [100.0]
    with serving({7: ORDER}) as here, serving({7: ORDER}) as there:
        clusters = {"east": cluster("east", "orders", wire(7)), "west": cluster("west", "orders", wire(7))}
        questions = SchemaQuestions(settings(here.url, there.url), clusters.__getitem__, lambda: now[0])
        first = questions.of("east", "west", {"orders": "orders"}, lambda: AT)
        now[0] += VALID_SECONDS - 1
        assert questions.of("east", "west", {"orders": "orders"}, lambda: AT) is first
        now[0] += 2
        assert questions.of("east", "west", {"orders": "orders"}, lambda: AT) is not first


def test_the_gate_refuses_ids_that_differ_and_says_what_is_unknown() -> None:
    def judged(*findings: SchemaFinding, error: str = "") -> tuple[bool, str, str] | None:
        gate = schemas_agree(replace(READY, schemas=SchemaAnswers(at=NOW, findings=findings, error=error)))
        return None if gate is None else (gate.ok, gate.measured, gate.text)

    differ, unknown, silent, agree = (
        SchemaFinding(topic="t", part="value", agreement=each, text=f"value of t: {each.value}") for each in
        (Agreement.DIFFER, Agreement.UNKNOWN, Agreement.NOT_REQUESTED, Agreement.AGREE))  # fmt: skip
    assert judged() is None
    assert judged(error="no answer") is None
    assert schemas_agree(READY) is None
    assert judged(agree) == (True, "agree", "value of t: agree")
    assert judged(agree, silent) == (True, "not checked", "value of t: not checked")
    assert judged(agree, silent, unknown) == (False, "unknown", "value of t: unknown")
    refused = judged(unknown, differ)
    assert refused is not None
    assert refused[:2] == (False, "differ")
    assert refused[2].startswith("value of t: differ: the query would decode records with another schema")


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "url": ({"url": "registry:8081"}, "clusters.west.schema_registry.url"),
    "plain password": ({"url": "http://r:1", "username": "a", "password": "hidden"}, "schema_registry.password"),
    "no user": ({"url": "http://r:1", "password": "env:HOME"}, "username and password must be set together"),
    "password in clear": (
        {"url": "http://r:1", "username": "a", "password": "env:HOME"},
        "unencrypted on another host",
    ),
    "password in the url": ({"url": "http://ann:hidden@r:1"}, "clusters.west.schema_registry.url"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_registry_that_cannot_be_meant_is_a_mistake(tmp_path: Path, name: str) -> None:
    given, text = MISTAKES[name]
    config = {
        "store": "sqlite:///x.db",
        "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"], "schema_registry": given}},
    }
    path = tmp_path / "tideover.yaml"
    path.write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=text.replace(".", r"\.")) as raised:
        load(path, {"HOME": "x"})
    assert "hidden" not in str(raised.value)


def test_the_password_of_a_registry_is_masked(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("secret")
    registry = {"url": "https://r:1/apis", "username": "a", "password": "file:p"}
    config = {"store": "sqlite:///x.db", "clusters": {"east": {"bootstrap": ["e:1"], "schema_registry": registry}}}
    path = tmp_path / "tideover.yaml"
    path.write_text(json.dumps(config))
    shown = json.dumps(masked(load(path, {}).settings))
    assert "*****" in shown
    assert "file:p" not in shown
