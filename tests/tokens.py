"""A small OpenID Connect provider for tests: RSA signatures by openssl, served on the loopback with TLS or without.

It is a stand-in for a provider, made by us; the brokers and clients that use it are Kafka's own.
"""

import base64
import json
import ssl
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

AUDIENCE = "kafka"


def encoded(raw: bytes) -> str:
    """As a JWT has it."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


@dataclass
class TokenServer:
    """What it knows, and may be changed at any time."""

    url: str
    folder: Path
    secrets: dict[str, str]
    """By client."""
    seconds: float = 3600.0
    """How long a token is good for."""
    audience: str = AUDIENCE
    answer: tuple[int, Mapping[str, Any]] | None = None
    """Given instead of a token."""
    silent: threading.Event = field(default_factory=threading.Event)
    """While it is set, nothing is answered."""
    given: list[str] = field(default_factory=list)
    """The clients that got a token, in order."""

    @property
    def token_endpoint(self) -> str:
        return f"{self.url}/token"

    @property
    def jwks(self) -> str:
        return f"{self.url}/jwks"

    def make_key(self) -> None:
        self._openssl("genrsa", "-out", "rsa.key", "2048")

    def keys(self) -> Mapping[str, Any]:
        modulus = self._openssl("rsa", "-in", "rsa.key", "-noout", "-modulus").decode().strip().partition("=")[2]
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": encoded(bytes.fromhex(modulus))}
        return {"keys": [{**key, "e": encoded((65537).to_bytes(3, "big"))}]}

    def token(self, client: str) -> str:
        """A token for a client."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": client, "aud": self.audience, "iat": now, "exp": now + int(self.seconds)}
        head = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        signed = ".".join(encoded(json.dumps(each).encode()) for each in (head, claims))
        return f"{signed}.{encoded(self._openssl('dgst', '-sha256', '-sign', 'rsa.key', given=signed.encode()))}"

    def respond(self, header: str, form: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        """What the token endpoint answers (RFC 6749, sections 4.4 and 5.2)."""
        if self.answer is not None:
            return self.answer
        client, _, secret = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
        if self.secrets.get(client) != secret:
            return 401, {"error": "invalid_client", "error_description": f"Client {client} is not known so"}
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        self.given.append(client)
        return 200, {"access_token": self.token(client), "token_type": "Bearer", "expires_in": int(self.seconds)}

    def _openssl(self, *arguments: str, given: bytes = b"") -> bytes:
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, timeout=120,
                              input=given)  # fmt: skip
        return done.stdout


@contextmanager
def serving_tokens(
    folder: Path, secrets: Mapping[str, str], *, certificates: Path | None = None
) -> Iterator[TokenServer]:
    """Serve on a free port; with ``certificates`` of ``tests.certificates`` over TLS."""
    folder.mkdir(parents=True, exist_ok=True)
    known: list[TokenServer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, known[0].keys())

        def do_POST(self) -> None:
            while known[0].silent.is_set():
                time.sleep(0.05)
            if self.path != "/token":
                self._send(404, {})
                return
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {key: values[0] for key, values in urllib.parse.parse_qs(body).items()}
            self._send(*known[0].respond(self.headers.get("Authorization", ""), form))

        def _send(self, code: int, answer: Mapping[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificates is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if certificates is None else "https"
    tokens = TokenServer(f"{scheme}://127.0.0.1:{server.server_port}", folder, dict(secrets))
    tokens.make_key()
    known.append(tokens)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="tokens", daemon=True)
    thread.start()
    try:
        yield tokens
    finally:
        server.shutdown()
        server.server_close()
