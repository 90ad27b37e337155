"""What replicators say of their copies. The services are small HTTP servers of the same requests and answers."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from state.settings.replicators import Replicator, ReplicatorKind
from streaming.errors import ServiceTrouble
from streaming.probe.mirrors import MirrorState, mirror_states


class Api:
    """Answers by path; ``status`` other than 200 answers everything."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requested: list[tuple[str, Any, str | None]] = []
        self.status = 200
        self.url = ""


@contextmanager
def serving() -> Iterator[Api]:
    api = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(self.path, None)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(f"{self.path}?{body['name']}", body)

        def _answer(self, key: str, body: Any) -> None:
            api.requested.append((self.path, body, self.headers.get("Authorization")))
            status = api.status if key in api.answers or api.status != 200 else 404
            text = json.dumps(api.answers.get(key, {})).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()


def replicator(**keys: Any) -> Replicator:
    return Replicator.model_validate(keys)


def mirror(status: str, **ends: int) -> dict[str, Any]:
    """As a link gives it; ``p0=41``: of partition 0 nothing from 41 on was fetched."""
    lags = [{"partition": int(each[1:]), "lag": 0, "last_source_fetch_offset": end} for each, end in ends.items()]
    return {"kind": "KafkaMirrorData", "mirror_topic_name": "t", "mirror_status": status, "mirror_lags": lags}


@pytest.mark.parametrize("word", ["ACTIVE", "PAUSED", "FAILED", "PENDING_STOPPED", "STOPPED"])
def test_a_topic_of_a_cluster_link_is_a_mirror_until_it_is_stopped(word: str) -> None:
    with serving() as api:
        api.answers["/kafka/v3/clusters/lkc-1/links/dr/mirrors/orders%2Fa"] = mirror(word, p0=41, p1=0, p2=-1)
        link = f"{api.url}/kafka/v3/clusters/lkc-1/links/dr/"
        known = replicator(kind="cluster-linking", url=link, username="key", password="secret")
        state = MirrorState(word, word == "STOPPED", {0: 41, 1: 0})
        assert mirror_states(known, ["orders/a"], timeout=10) == {"orders/a": state}
        assert api.requested[0][2] == f"Basic {base64.b64encode(b'key:secret').decode()}"


SHADOWED = [
    {"sourceHighWatermark": "100", "highWatermark": "90"},
    {"partitionId": "1", "sourceHighWatermark": "-1"},
    {"partitionId": "2", "sourceHighWatermark": "7"},
    {"partitionId": "3", "highWatermark": "5"},
]
"""Of partition 0, whose number is left out as protocol buffers do; of two the source was not seen."""


@pytest.mark.parametrize(
    "word", ["ACTIVE", "FAULTED", "PAUSED", "FAILING_OVER", "PROMOTING", "FAILED_OVER", "PROMOTED"]
)
def test_a_shadow_topic_is_one_until_it_has_failed_over_or_was_promoted(word: str) -> None:
    with serving() as api:
        path = "/redpanda.core.admin.v2.ShadowLinkService/GetShadowTopic"
        api.answers[f"{path}?orders"] = {
            "shadowTopic": {
                "name": "orders",
                "status": {"state": f"SHADOW_TOPIC_STATE_{word}", "partitionInformation": SHADOWED},
            }
        }
        known = replicator(kind="shadowing", url=api.url, link="dr")
        is_over = word in {"FAILED_OVER", "PROMOTED"}
        assert mirror_states(known, ["orders", "refunds"], timeout=10) == {
            "orders": MirrorState(word, is_over, {0: 100, 2: 7}), "refunds": MirrorState(None, False),
        }  # fmt: skip
        assert api.requested[0][:2] == (path, {"shadowLinkName": "dr", "name": "orders"})


@pytest.mark.parametrize(
    ("status", "answer", "text"),
    [
        (401, {}, "answers 401"),
        (302, {}, "answers 302"),
        (
            200,
            {"mirror_status": "STOPPED", "mirror_lags": [{}]},
            "does not answer as cluster-linking's API: no state of",
        ),
        (
            200,
            {"mirror_status": "STOPPED", "mirror_lags": [{"partition": 0, "last_source_fetch_offset": "x"}]},
            "does not answer as cluster-linking's API: no state of orders",
        ),
        (200, {"mirror_lags": []}, "does not answer as cluster-linking's API: no state of orders"),
        (200, ["ACTIVE"], "does not answer as cluster-linking's API: no state of orders"),
    ],
)
def test_no_answer_and_an_answer_of_another_shape_are_errors(status: int, answer: Any, text: str) -> None:
    with serving() as api:
        api.status, api.answers["/mirrors/orders"] = status, answer
        with pytest.raises(ServiceTrouble) as raised:
            mirror_states(replicator(kind="cluster-linking", url=api.url), ["orders"], timeout=10)
        assert text in str(raised.value)
        assert str(raised.value).startswith(api.url)


def test_a_service_that_is_away_is_named() -> None:
    with serving() as api:
        url = api.url
    with pytest.raises(ServiceTrouble, match=f"{url} does not answer as cluster-linking's API"):
        mirror_states(replicator(kind="cluster-linking", url=url), ["orders"], timeout=10)


@pytest.mark.parametrize("kind", [each for each in ReplicatorKind if each is not ReplicatorKind.SHADOWING])
def test_a_replicator_without_an_address_reports_nothing(kind: ReplicatorKind) -> None:
    assert mirror_states(replicator(kind=kind), ["orders"], timeout=10) is None
