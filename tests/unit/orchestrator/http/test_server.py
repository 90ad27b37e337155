"""The server beside the loop: health, a store that is away, a port that is taken, TLS, and OpenAPI that fits."""

import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.config.load import load
from orchestrator.http import server
from orchestrator.http.application import HEADERS
from orchestrator.http.reads import LabelParameters, Reads
from state.store.sql.migrate import open_store
from tests.certificates import make_certificates
from tests.served import CONFIG, VIEWER, Served, serving
from tests.waiting import until


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), config=CONFIG + "    labels: {team: billing}\n") as made:
        yield made


def test_health_is_public_and_says_nothing_else(served: Served) -> None:
    assert (served.call("/healthz").code, served.call("/healthz").body) == (200, b"the loop turns\n")
    assert (served.call("/readyz").code, served.call("/readyz").body) == (200, b"the store answers\n")


def test_a_loop_that_has_stopped_is_not_healthy(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.server.pulse.turned_at = served.server._began_at = time.monotonic() - server.TURN_SECONDS - 1
        assert served.call("/healthz").code == 503
        served.server.pulse.beat(time.monotonic())
        assert served.call("/healthz").code == 200


def test_a_store_that_is_gone_is_not_ready_and_not_hidden(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert served.call("/api/status", token=VIEWER).code == 200
        for file in tmp_path.glob("t.db*"):
            file.unlink()
        (tmp_path / "t.db").mkdir()
        served.server._store.close()  # type: ignore[union-attr] # it listens, so it has one
        assert served.call("/healthz").code == 200
        assert served.call("/readyz").code == 503
        until(lambda: served.call("/api/status", token=VIEWER).code != 200)
        answer = served.call("/api/status", token=VIEWER)
        assert (answer.code, answer.kind) == (503, "store-unavailable")


def test_a_port_that_is_taken_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RETRY_SECONDS", 0.05)
    taken, tried = server._listening("127.0.0.1:0"), []

    def log_nothing(*said: object, **_: object) -> None:
        tried.append(said)
        taken.close()

    monkeypatch.setattr(server.log, "warning", log_nothing, raising=False)
    port = taken.getsockname()[1]
    with serving(tmp_path, http=f"listen: 127.0.0.1:{port}") as served:
        assert served.call("/healthz").code == 200
    assert tried == [("HTTP does not listen; it is tried again",)]


def test_it_listens_to_loopback_alone_when_set_so(served: Served) -> None:
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", served.port), timeout=5):
        pass


def test_after_its_end_nothing_listens(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        port = served.port
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def test_the_router_and_openapi_have_the_same_paths(served: Served) -> None:
    document = served.call("/api/openapi.json", token=VIEWER).json
    paths = document["paths"]
    assert {"/api/status", "/api/queries/{query}", "/api/history", "/healthz", "/readyz"} <= paths.keys()
    for path, methods in paths.items():
        if list(methods) == ["post"]:
            assert served.post(path, {}, token=VIEWER).code == 403, path
            assert served.call(path, token=VIEWER).code == 405, path
            continue
        assert list(methods) == ["get"]
        if path == "/events":  # which does not end
            assert served.call(path, token=VIEWER, method="HEAD").code == 200
            continue
        answer = served.call(re.sub(r"\{\w+\}", "revenue", path), token=VIEWER)
        assert answer.code == (404 if "{operation}" in path or "{request}" in path else 200), path
        assert all(answer.headers[name] == value for name, value in HEADERS.items())
        if not methods["get"].get("security", True):
            assert served.call(path).code == 200
        else:
            assert served.call(re.sub(r"\{\w+\}", "revenue", path)).code == 401


def test_every_parameter_that_openapi_names_is_taken(served: Served) -> None:
    sample = {"integer": "1", "boolean": "true", "string": "-1h"}
    paths = served.call("/api/openapi.json", token=VIEWER).json["paths"]
    requested = 0
    for path, methods in paths.items():
        for parameter in methods.get("get", {}).get("parameters", []):
            if parameter["in"] == "query":
                kinds = parameter["schema"].get("anyOf", [parameter["schema"]])
                value = "team=billing" if parameter["name"] == "label" else sample[kinds[0]["type"]]
                answer = served.call(f"{path.replace('{query}', 'revenue')}?{parameter['name']}={value}", token=VIEWER)
                assert answer.code == 200, (path, parameter["name"])
                requested += 1
    assert requested == 15


def test_a_path_without_parameters_takes_none(served: Served) -> None:
    assert served.call("/api/clusters?x=1", token=VIEWER).code == 400


def test_an_answer_shows_nothing_of_a_bug(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Reads) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Reads, "clusters", broken)
    answer = served.call("/api/clusters", token=VIEWER)
    assert (answer.code, answer.kind) == (500, "bug")
    assert b"secret" not in answer.body


def test_the_status_is_read_at_most_once_a_second(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        first = served.call("/api/status", token=VIEWER).json["at"]
        reads = Reads(open_store(f"sqlite:///{tmp_path}/t.db"), served.server.settings, served.server.clock)
        seen = {reads.status(LabelParameters())["at"] for _ in range(50)}
        assert len(seen) <= 2
        until(lambda: served.call("/api/status", token=VIEWER).json["at"] != first)


def test_with_a_certificate_it_speaks_tls_and_nothing_else(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "certs", "unused")
    trust = ssl.create_default_context(cafile=str(made / "ca.pem"))
    http = "listen: 127.0.0.1:0x\n  tls: {cert: certs/server.pem, key: certs/server.key}"
    with serving(tmp_path, http=http, authority=trust) as served:
        answer = served.call("/api/status", token=VIEWER)
        assert (answer.code, answer.headers["Strict-Transport-Security"]) == (200, "max-age=31536000")
        assert not served.send(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").startswith(b"HTTP/")


def test_only_clients_of_the_named_authority_are_let_in_and_need_their_token(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "certs", "unused")
    http = "listen: 127.0.0.1:0x\n  tls: {cert: certs/server.pem, key: certs/server.key, clients: certs/ca.pem}"

    def client(certificate: str | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(made / "ca.pem"))
        if certificate is not None:
            context.load_cert_chain(made / certificate, made / "client.plain")
        return context

    with serving(tmp_path, http=http, authority=client("client.pem")) as served:
        assert served.call("/api/status", token=VIEWER).code == 200
        assert served.call("/api/status").code == 401
        for stranger in (None, "strange.pem", "expired.pem"):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                Served(served.server, client(stranger)).call("/healthz")


def test_a_world_without_http_opens_no_port(tmp_path: Path) -> None:
    for text in (CONFIG, CONFIG + "http: off\n", CONFIG + "http: {listen: off}\n", CONFIG + "http: {}\n"):
        (tmp_path / "tideover.yaml").write_text(text, encoding="utf-8")
        assert not load(tmp_path / "tideover.yaml", {}).settings.http.is_on
