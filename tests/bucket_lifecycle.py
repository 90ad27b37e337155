"""A stand-in for a store of the S3 protocol that answers one request: which lifecycle a bucket has.

Versity's gateway, which the other tests of object stores use, answers that it has no such request. The texts here are
those of Amazon's documentation of ``GetBucketLifecycleConfiguration`` and of its errors.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse

_HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
_SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


@dataclass
class Lifecycles:
    """By bucket, a status and a body."""

    port: int = 0
    answers: dict[str, tuple[HTTPStatus, str]] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)

    def has(self, bucket: str, *rules: str) -> str:
        """Give a bucket rules; the bucket's name."""
        text = f'{_HEAD}<LifecycleConfiguration xmlns="{_SPACE}">{"".join(rules)}</LifecycleConfiguration>'
        self.answers[bucket] = HTTPStatus.OK, text
        return bucket

    def refuses(self, bucket: str, status: HTTPStatus, code: str) -> str:
        """Let a bucket answer with an error; the bucket's name."""
        self.answers[bucket] = status, f"{_HEAD}<Error><Code>{code}</Code><Message>{code}</Message></Error>"
        return bucket


def rule(name: str, what: str, does: str, status: str = "Enabled") -> str:
    """A rule; ``what`` is inside its filter."""
    return f"<Rule><ID>{name}</ID><Filter>{what}</Filter><Status>{status}</Status>{does}</Rule>"


def expires(days: int) -> str:
    return f"<Expiration><Days>{days}</Days></Expiration>"


@contextmanager
def lifecycles() -> Iterator[Lifecycles]:
    """The server, until the block ends."""
    known = Lifecycles()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlparse(self.path)
            bucket = address.path.strip("/")
            known.requested.append(self.path)
            status, body = known.answers.get(bucket, (HTTPStatus.NOT_FOUND, ""))
            if not address.query.startswith("lifecycle"):
                status, body = HTTPStatus.BAD_REQUEST, ""
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        known.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield known
        server.shutdown()
