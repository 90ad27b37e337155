"""A web server of fixed answers, on loopback: what a cluster manager would answer at each path."""

import json
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class JsonServer:
    """By path with its query, an answer: a status alone, bytes as they are, or anything else as JSON."""

    url: str
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Host and port."""
        return self.url.removeprefix("http://")


def attempt_xml(state: str | None, diagnostics: str = "") -> bytes:
    """An attempt as a ResourceManager gives it."""
    made = ET.Element("appAttempt")
    for name, text in (("appAttemptState", state), ("diagnosticsInfo", diagnostics)):
        if text is not None:
            ET.SubElement(made, name).text = text
    return ET.tostring(made)


@contextmanager
def json_server(**answers: Any) -> Iterator[JsonServer]:
    """``answers`` by path without its first slash; 404 where there is none."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = made.answers.get(self.path, 404)
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            if not isinstance(answer, int):
                self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = JsonServer(f"http://127.0.0.1:{server.server_port}", {f"/{path}": each for path, each in answers.items()})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60.0)
