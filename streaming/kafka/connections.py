"""kafka-python's connections, with every wait bounded and every stage of connecting reported.

The library bounds a connect, but not a TLS handshake. It gives the first address of a name all the time there is. And
its errors keep neither the number of a refused connect nor the reason of a failed look-up. So the dialling is done
here, on its loop.
"""

import errno
import os
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafka import errors
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import MetadataRequest

from streaming.kafka.login.prepared import Login, prepared
from streaming.kafka.security import Credentials
from streaming.probe.identities import Identify

Node = int | str
"""A broker's id, or the library's name for a bootstrap server (``bootstrap-0``)."""

_UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK)


@dataclass(frozen=True, slots=True)
class Milestones:
    """When the newest connection to a node was begun and came how far, on the monotonic clock; None: not so far."""

    began: float
    tcp: float | None = None
    ready: float | None = None
    """TLS and SASL are through, and the broker has sent its versions."""


def metadata_request(topics: Sequence[str] | None) -> Any:
    """Request these topics only, or for all by None, without creating any (which needs version 4, Kafka 0.11)."""
    named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False, min_version=4, max_version=12)


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # the library ships no types for it
    """The library's connections. Everything here runs on the loop's thread."""

    def __init__(self, net: Any, credentials: Credentials, identify: Identify, **settings: Any) -> None:
        super().__init__(net, **settings)
        self._credentials = credentials
        self._identify = identify
        self.milestones: dict[Node, Milestones] = {}

    def has(self, node: Node) -> bool:
        """Whether a connection to a node is open or being opened."""
        return node in self._conns

    @property
    def count(self) -> int:
        """Connections that are open or being opened."""
        return len(self._conns)

    def forget_failures(self, node: Node) -> None:
        """Let the next question try at once: pauses between attempts, and giving up, are decided by the caller."""
        self.reset_backoff(node)
        self._auth_failures.pop(node, None)  # kept for ever otherwise, though a password can be mended on the broker

    def get_connection(self, node_id: Any, **more: Any) -> Any:
        """The connection to a node; a new one takes what certificates and passwords are now.

        Raises CredentialRefused when they cannot be used, and what the library does.
        """
        if node_id not in self._conns:
            self.config.update(self._credentials.now())
        return super().get_connection(node_id, **more)

    def drop(self, nodes: Sequence[Node]) -> None:
        """Close what lost a race: extra connections to bootstrap servers, and connections that are not ready."""
        for node in nodes:
            connection = self._conns.get(node)
            if connection is not None and (self.cluster.is_bootstrap(node) or not connection.connected):
                connection.close()

    async def _connect(self, node: Any, conn: Any, **more: Any) -> None:
        self.milestones[node.node_id] = Milestones(time.monotonic())
        conn.__class__, conn.identify = _IdentityChecked, self._identify  # the library makes its connections itself
        conn.login = self._credentials.login
        await super()._connect(node, conn, **more)
        if conn.connected:
            self._reach(node, ready=time.monotonic())

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await self._dial(node, timeout_at)
        self._reach(node, tcp=time.monotonic())
        if not self.ssl_enabled:
            return _Transport(self._net, sock, host=node.host)
        transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
        try:
            await transport.handshake_by(timeout_at)
        except (OSError, errors.KafkaError) as error:
            transport.abort()
            raise errors.KafkaConnectionError(error) from error
        return transport

    def _reach(self, node: Any, **when: float) -> None:
        self.milestones[node.node_id] = replace(self.milestones[node.node_id], **when)

    async def _dial(self, node: Any, timeout_at: float | None) -> socket.socket:
        """Connect to the first of a name's addresses that answers; each has its share of the time that is left."""
        try:
            addresses = socket.getaddrinfo(node.host, node.port, socket.AF_UNSPEC, socket.SOCK_STREAM)
        except socket.gaierror as error:
            words = f"the name {node.host} cannot be looked up: {error.strerror}"
            raise errors.KafkaConnectionError(words) from error
        failure: Exception = errors.KafkaConnectionError(f"the name {node.host} has no address")
        for index, address in enumerate(addresses):
            now = time.monotonic()
            until = None if timeout_at is None else now + max(0.0, timeout_at - now) / (len(addresses) - index)
            try:
                return await self._dial_address(address, until)
            except OSError as error:
                failure = errors.KafkaConnectionError(_words(error))
                failure.__cause__ = error
            except errors.KafkaError as error:
                failure = error
        raise failure

    async def _dial_address(self, address: Any, timeout_at: float | None) -> socket.socket:
        family, kind, protocol, _, place = address
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            for option in self.config["socket_options"]:
                sock.setsockopt(*option)
            code = sock.connect_ex(place)
            if code in _UNDER_WAY:
                await self._net.wait_write(sock, timeout_at=timeout_at)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
        except BaseException:
            sock.close()
            raise
        return sock


class _IdentityChecked(KafkaConnection):  # type: ignore[misc]  # the library ships no types for it
    """A connection whose broker names its cluster before any question goes to it.

    The leaders that are remembered are of the cluster that named them: a question to the same address that reached
    another one would be answered from other logs.
    """

    identify: Identify
    login: Login | None

    async def initialize(self, timeout_at: float | None = None) -> None:
        """As the library does, and a question more; raises nothing, and hands errors on to who waits."""
        try:
            await self._get_api_versions(timeout_at)
            if self.sasl_enabled:
                await self._sasl_authenticate(timeout_at)
            metadata = await self._send_request(metadata_request([]), timeout_at=timeout_at)
            self.identify(metadata.cluster_id)
        except Exception as error:  # noqa: BLE001 - the library's own edge
            self.close(error)
        else:
            self._init_complete()

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        """As the library does, at the first login and at each later one, with what has to be fetched for it.

        A later one has no deadline of its own: it gets that of a request.
        """
        timeout_at = self._timeout_at() if timeout_at is None else timeout_at
        if self.login is not None:
            self.config.update(await prepared(self.net, self.login, self.transport.host, timeout_at))
        try:
            await super()._sasl_authenticate(timeout_at)
        except errors.SaslAuthenticationFailedError:
            if self.login is not None:
                self.login.was_refused()
            raise


class _LastBytes:
    """Hands on what a broker said right before it hung up: the library drops it, and with it why we were refused."""

    _end: Exception | None = None

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        if self._end is not None:
            return b"", self._end
        data, self._end = super()._sock_recv()  # type: ignore[misc]  # of the library's transport beside it
        return (data, None) if data else (b"", self._end)


class _Transport(_LastBytes, KafkaTCPTransport):  # type: ignore[misc]  # the library ships no types for it
    """A plain connection."""


class _TlsTransport(_LastBytes, KafkaSSLTransport):  # type: ignore[misc]  # the library ships no types for it
    """A TLS transport whose handshake ends in time even if the other side never speaks."""

    async def handshake_by(self, timeout_at: float | None) -> None:
        """Shake hands; raises KafkaTimeoutError at ``timeout_at``, ``ssl.SSLError`` when a certificate is refused."""
        while True:
            try:
                self._sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=timeout_at)


def _words(error: OSError) -> str:
    return f"{errno.errorcode.get(error.errno or 0, 'error')} {(error.strerror or str(error)).lower()}"
