"""Turns a cluster's settings into kafka-python's, and tells our own bad credentials from a sick cluster.

Files are read before a connection is tried: a missing certificate is then one clear sentence instead of a broker
that seems to hang up. Secrets go to the library and nowhere else; no sentence made here contains one.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka import errors
from pydantic import SecretStr

from state.settings.keys import Cluster, Security
from streaming.errors import CredentialRefused
from streaming.secrets import Broken, reveal

RECEIVE_LIMIT_BYTES = 200_000_000  # 100,000 partitions of metadata are 5 MB; a fetch may be as large as it asks for
IN_FLIGHT = 1000  # beyond it the library refuses instead of queueing

_OURS = "our own certificate (cert)"
_TAKEN = "one that has not expired, of an authority in the broker's truststore"
# What OpenSSL says when one side's certificate, not the network, is the reason, and what it means; the first that is
# found counts. A connection that merely breaks off in the middle of a handshake is a sick broker.
_CERTIFICATE_WORDS = {
    "CERTIFICATE HAS EXPIRED": "the broker's certificate has expired",
    "CERTIFICATE IS NOT YET VALID": "the broker's certificate is not valid yet, or this host's clock is wrong",
    "HOSTNAME MISMATCH": "the broker's certificate is for another name (check_hostname)",
    "IP ADDRESS MISMATCH": "the broker's certificate is for another address (check_hostname)",
    "CERTIFICATE_VERIFY_FAILED": "the broker's certificate is not signed by an authority that we trust (ca)",
    "CERTIFICATE_REQUIRED": f"the broker wants {_OURS}: name {_TAKEN}",
    "CERTIFICATE REQUIRED": f"the broker wants {_OURS}: name {_TAKEN}",
    "CERTIFICATE_EXPIRED": f"the broker refuses {_OURS}: it has expired, renew it",
    "CERTIFICATE EXPIRED": f"the broker refuses {_OURS}: it has expired, renew it",
    "CERTIFICATE_UNKNOWN": f"the broker refuses {_OURS}: name {_TAKEN}",
    "CERTIFICATE UNKNOWN": f"the broker refuses {_OURS}: name {_TAKEN}",
    "BAD_CERTIFICATE": f"the broker refuses {_OURS}, or misses it: name {_TAKEN}",
    "BAD CERTIFICATE": f"the broker refuses {_OURS}, or misses it: name {_TAKEN}",
    "UNSUPPORTED_CERTIFICATE": f"the broker refuses the kind of {_OURS}",
    "UNKNOWN_CA": f"the broker refuses {_OURS}: name {_TAKEN}",
    "UNKNOWN CA": f"the broker refuses {_OURS}: name {_TAKEN}",
    "HANDSHAKE_FAILURE": f"the broker ends the handshake: it wants {_OURS}, or other ciphers",
    "WRONG_VERSION_NUMBER": "the broker does not speak TLS at this address (protocol)",
}


def library_settings(cluster: Cluster) -> Mapping[str, Any]:
    """Return the keyword arguments for kafka-python, but for credentials."""
    return {
        "bootstrap_servers": list(cluster.bootstrap),
        "client_id": "tideover",
        "security_protocol": cluster.security.protocol,
        "receive_message_max_bytes": RECEIVE_LIMIT_BYTES,
        "max_in_flight_requests_per_connection": IN_FLIGHT,
        "slow_task_threshold_secs": 0,  # decoding 100,000 partitions takes a second, and that is no fault
    }


class Credentials:
    """What one cluster wants of us, as it is now. Called by one thread at a time."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._loaded: tuple[object, ssl.SSLContext] | None = None

    def now(self) -> Mapping[str, Any]:
        """The keyword arguments for kafka-python's next connection. Raises CredentialRefused."""
        security, settings = self._security, dict[str, Any]()
        if security.protocol.endswith("SSL"):
            settings["ssl_context"] = self._tls_context()
        if security.sasl is not None:
            settings["sasl_mechanism"] = security.sasl.mechanism
            settings["sasl_plain_username"] = security.sasl.username
            settings["sasl_plain_password"] = _secret(security.sasl.password, "the password")
        return settings

    def _tls_context(self) -> ssl.SSLContext:
        """A context of the files as they are: loading takes milliseconds, so it waits until one has changed."""
        security = self._security
        password = _secret(security.key_password, "the key's password") if security.key_password else ""
        seen = (*(_version(file) for file in (security.ca, security.cert, security.key) if file), password)
        if self._loaded is None or self._loaded[0] != seen:
            self._loaded = seen, _tls_context(security, password)
        return self._loaded[1]


def refusal(outcome: object) -> str | None:
    """Return the reason in words when this outcome shows that our credentials are at fault, else None."""
    if isinstance(
        outcome,
        errors.SaslAuthenticationFailedError | errors.UnsupportedSaslMechanismError | errors.IllegalSaslStateError,
    ):
        return f"SASL: {_sentence(outcome)}"
    if isinstance(outcome, errors.AuthorizationError):
        return _sentence(outcome)
    if isinstance(outcome, BaseException):
        text = str(outcome).upper()
        meaning = next((meaning for word, meaning in _CERTIFICATE_WORDS.items() if word in text), None)
        if meaning is not None:
            return f"TLS: {meaning} ({_sentence(outcome)})"
    return None


def _sentence(error: BaseException) -> str:
    return str(error.args[0]) if error.args else type(error).__name__


def _secret(secret: SecretStr, what: str) -> str:
    try:
        return reveal(secret)
    except Broken as broken:
        hint = "it is named under security of this cluster, and read by each new connection"
        raise CredentialRefused(f"{what} cannot be read: {broken.why}", hint=hint) from None


def _version(file: Path) -> object:
    try:
        seen = file.stat()
    except OSError:
        return None  # loading it says what is wrong
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _tls_context(security: Security, password: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.check_hostname
    what = "the system's certificate authorities"
    try:
        if security.ca is None:
            context.load_default_certs()
        else:
            what = f"the certificate authority {security.ca}"
            context.load_verify_locations(cafile=security.ca)
        if security.cert is not None:
            what = f"certificate {security.cert} with key {security.key}"
            # Without a password OpenSSL would ask on the terminal and wait there; an empty one fails at once.
            context.load_cert_chain(security.cert, security.key, password=lambda: password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise CredentialRefused(
            f"{what} cannot be loaded: {reason}",
            hint="check the files under security: PEM format, readable, key and certificate of one pair, key_password",
        ) from None  # the cause is said in words; its own text may quote what it was given
    return context
