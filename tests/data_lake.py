"""A stand-in for Azure Data Lake Storage, generation 2: the requests that Hadoop's client makes, kept in memory.

No emulator in a package registry has them: Azurite has no hierarchical namespace. What each request means is taken from
Microsoft's reference of the service ("Path - Create", "Path - Update", "Path - List"). A rename and a create with
``If-None-Match: *`` look and write under one lock, as the service does. Signatures are not checked.
"""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlparse

ACCOUNT, KEY = "lake", "Y29ycmVjdC1ob3JzZS01MWIy"
_CONFLICT = (HTTPStatus.CONFLICT, "PathAlreadyExists")
_MISSING = (HTTPStatus.NOT_FOUND, "PathNotFound")
_SOURCE_MISSING = (HTTPStatus.NOT_FOUND, "SourcePathNotFound")


@dataclass
class Entry:
    """A file, or a folder."""

    is_folder: bool = False
    content: bytes = b""
    pending: dict[int, bytes] = field(default_factory=dict)
    """Appended, and not flushed: no reader sees it."""
    tag: str = field(default_factory=lambda: f'"{uuid.uuid4().hex}"')

    def headers(self) -> dict[str, str]:
        return {
            "ETag": self.tag,
            "Last-Modified": formatdate(usegmt=True),
            "x-ms-resource-type": "directory" if self.is_folder else "file",
            "x-ms-permissions": "rwxr-x---",
            "x-ms-owner": "owner",
            "x-ms-group": "group",
        }


@dataclass
class DataLake:
    """One file system; names are below it, without a slash in front."""

    obeys_conditions: bool = True
    port: int = 0
    entries: dict[str, Entry] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    lost_renames: int = 0
    """How many more renames are done and not answered."""
    renames: list[str | None] = field(default_factory=list)
    """``If-None-Match`` of each rename."""

    @property
    def url(self) -> str:
        return f"abfs://checkpoints-{self.port}@{ACCOUNT}.dfs.core.windows.net"

    def conf(self) -> dict[str, str]:
        """Hadoop's settings to reach it."""
        return {
            "fs.azure.abfs.endpoint": f"127.0.0.1:{self.port}",
            "fs.azure.always.use.https": "false",
            "fs.azure.account.hns.enabled": "true",
            "fs.azure.account.auth.type": "SharedKey",
            f"fs.azure.account.key.{ACCOUNT}.dfs.core.windows.net": KEY,
            "fs.azure.io.retry.min.backoff.interval": "50",
            "fs.azure.enable.autothrottling": "false",
            "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",  # the other one wants TLS
        }

    def spark_conf(self) -> dict[str, str]:
        """The same as settings of a Spark session."""
        return {f"spark.hadoop.{key}": value for key, value in self.conf().items()}

    def _is_taken(self, name: str, condition: str | None) -> bool:
        return name in self.entries and condition == "*" and self.obeys_conditions

    def create(self, name: str, kind: str, condition: str | None) -> Any:
        if self._is_taken(name, condition):
            return _CONFLICT
        parts = name.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            self.entries.setdefault("/".join(parts[:depth]), Entry(is_folder=True))
        if kind == "directory" and name in self.entries:
            return self.entries[name]
        self.entries[name] = Entry(is_folder=kind == "directory")
        return self.entries[name]

    def rename(self, source: str, name: str, condition: str | None) -> Any:
        self.renames.append(condition)
        if source not in self.entries:
            return _SOURCE_MISSING
        if self._is_taken(name, condition):
            return _CONFLICT
        below = [each for each in self.entries if each == source or each.startswith(f"{source}/")]
        for each in below:
            self.entries[name + each.removeprefix(source)] = self.entries.pop(each)
        return self.entries[name]

    def update(self, name: str, action: str, position: int, body: bytes, *, flush: bool) -> Any:
        entry = self.entries.get(name)
        if entry is None:
            return _MISSING
        if action == "append":
            entry.pending[position] = body
        if action == "flush" or flush:
            for start in sorted(entry.pending):
                entry.content = entry.content[:start] + entry.pending[start]
            entry.pending.clear()
            entry.tag = f'"{uuid.uuid4().hex}"'
        return entry

    def listed(self, folder: str, *, recursive: bool) -> list[dict[str, object]] | tuple[HTTPStatus, str]:
        if folder and folder not in self.entries:
            return _MISSING
        prefix = f"{folder}/" if folder else ""
        names = [
            each for each in self.entries if each.startswith(prefix) and (recursive or "/" not in each[len(prefix) :])
        ]
        return [
            {
                "name": each, "isDirectory": "true" if (one := self.entries[each]).is_folder else "false",
                "contentLength": str(len(one.content)), "etag": one.tag, "lastModified": formatdate(usegmt=True),
                "owner": "owner", "group": "group", "permissions": "rwxr-x---",
            }
            for each in sorted(names)
        ]  # fmt: skip

    def delete(self, name: str) -> Any:
        if name not in self.entries:
            return _MISSING
        for each in [each for each in self.entries if each == name or each.startswith(f"{name}/")]:
            del self.entries[each]
        return HTTPStatus.OK


@contextmanager
def data_lake(**more: Any) -> Iterator[DataLake]:
    """The server, until the block ends."""
    lake = DataLake(**more)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            address, body = urlparse(self.path), self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {key: values[0] for key, values in parse_qs(address.query, keep_blank_values=True).items()}
            # the account comes first in the path where an address stands for the host
            parts = unquote(address.path).strip("/").split("/")
            name = "/".join(parts[2:] if parts[0] == ACCOUNT else parts[1:])
            method = self.headers.get("X-HTTP-Method-Override") or self.command
            with lake.lock:
                answer = self._answer(method, name, query, body)
                lost = lake.lost_renames > 0 and method == "PUT" and self.headers.get("x-ms-rename-source") is not None
                lake.lost_renames -= lost
            if lost:
                self.close_connection = True
            else:
                self._send(answer, method)

        def _answer(self, method: str, name: str, query: dict[str, str], body: bytes) -> Any:
            condition, source = self.headers.get("If-None-Match"), self.headers.get("x-ms-rename-source")
            if query.get("resource") == "filesystem" and method == "GET":
                return lake.listed(query.get("directory", "").strip("/"), recursive=query.get("recursive") == "true")
            if query.get("resource") == "filesystem" or not name:
                return Entry(is_folder=True)
            if method == "PUT" and source is not None:
                return lake.rename("/".join(unquote(source).strip("/").split("/")[1:]), name, condition)
            if method == "PUT" and "resource" in query:
                return lake.create(name, query["resource"], condition)
            if method == "PATCH":
                flush = query.get("flush") == "true"
                return lake.update(name, query["action"], int(query.get("position", 0)), body, flush=flush)
            if method == "DELETE":
                return lake.delete(name)
            return lake.entries.get(name, _MISSING)

        def _send(self, answer: Any, method: str) -> None:
            status, body, headers = HTTPStatus.OK, b"", dict[str, str]()
            if isinstance(answer, tuple):
                status, code = answer
                headers["x-ms-error-code"] = code
                body = json.dumps({"error": {"code": code, "message": code}}).encode()
            elif isinstance(answer, list):
                body = json.dumps({"paths": answer}).encode()
            elif isinstance(answer, Entry):
                headers = answer.headers()
                body = answer.content if method in {"GET", "HEAD"} else b""
                status = {"PUT": HTTPStatus.CREATED, "PATCH": HTTPStatus.ACCEPTED}.get(method, status)
            span = self.headers.get("Range") or self.headers.get("x-ms-range")
            if method == "GET" and span and isinstance(answer, Entry):
                first, _, last = span.removeprefix("bytes=").partition("-")
                total, body, status = len(body), body[int(first) : int(last) + 1], HTTPStatus.PARTIAL_CONTENT
                headers["Content-Range"] = f"bytes {first}-{int(first) + len(body) - 1}/{total}"
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("x-ms-request-id", uuid.uuid4().hex)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if method != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_PATCH = do_POST = _serve  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        lake.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield lake
        server.shutdown()
