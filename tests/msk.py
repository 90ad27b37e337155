"""A stand-in for a broker of Amazon MSK: a gate that checks IAM's signature, with a real broker of Kafka behind it.

The gate has TLS and both mechanisms of MSK (``AWS_MSK_IAM``, ``OAUTHBEARER`` with a signed URL). It knows one key and
computes the signature again by Amazon's rules (Signature Version 4). Who passes is carried through to the broker.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import struct
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from tests.logins import LoginBroker, login_broker
from tests.ports import free_port

KEY, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI-EXAMPLEKEY", "eu-central-1"
MECHANISMS = ("AWS_MSK_IAM", "OAUTHBEARER")
_HANDSHAKE, _AUTHENTICATE = 17, 36
_REFUSED = 58


def signature(host: str, signed: Mapping[str, str]) -> str:
    """By Signature Version 4, of a request without a body and with the host as its only header."""
    quoted = sorted(f"{quote(key)}={quote(value)}" for key, value in signed.items())
    nothing = hashlib.sha256(b"").hexdigest()
    request = "\n".join(("GET", "/", "&".join(quoted), f"host:{host}", "", "host", nothing))
    when, scope = signed["X-Amz-Date"], signed["X-Amz-Credential"].partition("/")[2]
    text = "\n".join((signed["X-Amz-Algorithm"], when, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def quote(text: str) -> str:
    return urllib.parse.quote(text, safe="-_.~")


@dataclass
class Gate:
    """What it was shown, and may say instead of a yes."""

    address: str
    shown: list[str] = field(default_factory=list)
    """The mechanism of each login that passed."""
    refusal: str | None = None

    def judge(self, mechanism: str, given: bytes) -> str | None:
        """Why a login is refused; None where it is not."""
        if self.refusal is not None:
            return self.refusal
        if mechanism == "AWS_MSK_IAM":
            named = json.loads(given)
            host, found = named["host"], named["x-amz-signature"]
            signed = {_spelled(key): each for key, each in named.items() if key.startswith("x-amz-") or key == "action"}
        else:
            token = given.decode().partition("auth=Bearer ")[2].partition("\x01")[0]
            url = urllib.parse.urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
            signed = dict(urllib.parse.parse_qsl(url.query))
            host, found = url.netloc, signed["X-Amz-Signature"]
            signed = {
                key: each for key, each in signed.items() if key != "User-Agent"
            }  # it is added behind the signature
        signed.pop("X-Amz-Signature", None)
        scope = f"{KEY}/{signed['X-Amz-Date'][:8]}/{REGION}/kafka-cluster/aws4_request"
        if signed["X-Amz-Credential"] != scope or signed["Action"] != "kafka-cluster:Connect":
            return "Access denied"
        if not hmac.compare_digest(found, signature(host, signed)):
            return "Access denied: the signature does not match"
        self.shown.append(mechanism)
        return None


def _spelled(key: str) -> str:
    """As a URL has what the payload calls ``x-amz-signedheaders``."""
    words = {"action": "Action", "x-amz-signedheaders": "X-Amz-SignedHeaders"}
    return words.get(key, "-".join(part.capitalize() for part in key.split("-")))


class _Passing:
    """One connection through the gate."""

    def __init__(self, gate: Gate, target: str) -> None:
        self._gate = gate
        self._host, self._port = target.split(":")
        self._mechanism = ""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, int(self._port))
        with suppress(OSError, asyncio.IncompleteReadError, ConnectionError):
            while not await self._one(reader, writer, there, back):
                pass
            await asyncio.gather(_carry(reader, back), _carry(there, writer))
        writer.close()
        back.close()

    async def _one(self, reader: Any, writer: Any, there: Any, back: Any) -> bool:
        """Answer one request of a client that has not logged in; whether it has now."""
        frame = await _frame(reader)
        key, version, correlation = struct.unpack_from(">hhi", frame)
        answer: Any
        is_in = False
        if key == _HANDSHAKE:
            self._mechanism = SaslHandshakeRequest.decode(frame, version=version, header=True).mechanism
            known = self._mechanism in MECHANISMS
            answer = SaslHandshakeResponse(version=version, error_code=0 if known else 33, mechanisms=list(MECHANISMS))
        elif key == _AUTHENTICATE:
            given = SaslAuthenticateRequest.decode(frame, version=version, header=True).auth_bytes
            why = self._gate.judge(self._mechanism, bytes(given))
            is_in = why is None
            yes = json.dumps({"version": "2020_10_22", "request-id": "1"}).encode()
            answer = SaslAuthenticateResponse(
                version=version,
                error_code=_REFUSED if why else 0,
                error_message=why,
                auth_bytes=yes if is_in and self._mechanism == "AWS_MSK_IAM" else b"",
                session_lifetime_ms=0,
            )
        else:  # versions, which are requested before a login
            back.write(struct.pack(">i", len(frame)) + frame)
            found = await _frame(there)
            writer.write(struct.pack(">i", len(found)) + found)
            return False
        flexible = type(answer).flexible_version_q(version)
        body = struct.pack(">i", correlation) + (b"\0" if flexible else b"") + answer.encode(version=version)
        writer.write(struct.pack(">i", len(body)) + body)
        await writer.drain()
        return is_in


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _end_all() -> None:
    """End each connection that still passes."""
    others = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def behind_iam(folder: Path, files: Path) -> Iterator[tuple[LoginBroker, Gate]]:
    """A broker behind a gate; its certificates are those of ``tests.certificates``."""
    gate = Gate(f"127.0.0.1:{free_port()}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "server.pem", files / "server.key")
    loop = asyncio.new_event_loop()
    with login_broker(folder, "PLAINTEXT", "", {}, advertised=gate.address) as broker:

        async def serve() -> None:
            await asyncio.start_server(
                lambda *way: _Passing(gate, broker.address).take(*way), "127.0.0.1", int(gate.address.split(":")[1]),
                ssl=context,
            )  # fmt: skip

        loop.run_until_complete(serve())
        thread = threading.Thread(target=loop.run_forever, name="gate", daemon=True)
        thread.start()
        try:
            yield LoginBroker(gate.address, broker.plain), gate
        finally:
            asyncio.run_coroutine_threadsafe(_end_all(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()
