"""A stand-in for the API of Kubernetes: its paths, statuses and credentials over HTTPS, of pods that a test writes."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from streaming.spark.masters import kubernetes
from tests.certificates import make_certificates

NAMESPACE, NAME, UID = "shop", "shop-driver", "3b10fa97-c847-4fce-b3e1-71f779cffbef"
POD = f"{NAMESPACE}/{NAME}/{UID}"
DRIVER = "spark-kubernetes-driver"
RUNNING = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}


def terminated(code: int = 137, **change: object) -> dict[str, object]:
    """The state of a container whose end a kubelet has seen."""
    known = {"exitCode": code, "reason": "Error", "containerID": "containerd://4f1d", **change}
    return {"terminated": known}


def pod(phase: str | None, state: Mapping[str, object], **metadata: object) -> dict[str, Any]:
    """A pod of one container, as the API gives it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": NAMESPACE, "name": NAME, "uid": UID, **metadata},
        "spec": {"nodeName": "node-1", "restartPolicy": "Never", "containers": [{"name": DRIVER}]},
        "status": {"phase": phase, "containerStatuses": [{"name": DRIVER, "state": dict(state)}]},
    }


def token_of(**pod_claim: str) -> str:
    """A token as Kubernetes binds it to a pod; without one, as old clusters make it."""
    claims = {"sub": "x", "kubernetes.io": {"namespace": NAMESPACE, **({"pod": pod_claim} if pod_claim else {})}}
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in ({"alg": "x"}, claims)
    ]
    return ".".join([*parts, "signature"])


@dataclass
class KubernetesApi:
    """What it has; a test changes it."""

    folder: Path
    """Of the certificates."""
    port: int
    token: str
    """The one that it accepts."""
    may_get: bool = True
    """Whether the Role of the service account has get of pods."""
    delay: float = 0.0
    """Seconds before each answer."""
    answer: object = None
    """In place of any other: a status, or bytes."""
    pods: dict[tuple[str, str], Any] = field(default_factory=dict)

    def has(self, found: dict[str, Any]) -> None:
        """Put a pod under its name."""
        self.pods[found["metadata"]["namespace"], found["metadata"]["name"]] = found

    def reply(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        if isinstance(self.answer, int):
            return self.answer, b"{}"
        if isinstance(self.answer, bytes):
            return 200, self.answer
        if authorization != f"Bearer {self.token}":
            return _status(401, "Unauthorized")
        if not self.may_get:
            return _status(403, "Forbidden")
        words = path.split("/")
        found = self.pods.get((words[4], words[6])) if words[1:4] == ["api", "v1", "namespaces"] else None
        return _status(404, "NotFound") if found is None else (200, json.dumps(found).encode())


def _status(code: int, reason: str) -> tuple[int, bytes]:
    return code, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason}).encode()


@contextmanager
def kubernetes_api(folder: Path) -> Iterator[KubernetesApi]:
    """It runs on loopback, with a certificate of its own authority."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(made.delay)
            code, text = made.reply(self.path, self.headers.get("Authorization"))
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that does not trust the certificate, or waits no longer, is no error of the server."""

    certificates = make_certificates(folder / "certificates", "unused")
    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "keystore.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    made = KubernetesApi(certificates, server.server_port, token_of(name=NAME, uid=UID))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60.0)


def enter_pod(api: KubernetesApi, account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process what Kubernetes puts into a container: the API's address, and a service account's folder."""
    account.mkdir()
    (account / "token").write_text(api.token, encoding="ascii")
    (account / "ca.crt").write_bytes((api.folder / "ca.pem").read_bytes())
    monkeypatch.setattr(kubernetes, "ACCOUNT", account)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
