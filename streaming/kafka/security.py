"""Turns a cluster's settings into kafka-python's, and tells our own bad credentials from a sick cluster.

Files are read once, when the link is made: a missing certificate is then one clear sentence instead of a broker
that seems to hang up. Secrets go to the library and nowhere else; no sentence made here contains one.
"""

import ssl
from collections.abc import Mapping
from typing import Any

from kafka import errors

from state.settings import Cluster, Security
from streaming.errors import CredentialRefused

RECEIVE_LIMIT_BYTES = 200_000_000  # 100,000 partitions of metadata are 5 MB; a fetch may be as large as it asks for
IN_FLIGHT = 1000  # beyond it the library refuses instead of queueing

# What OpenSSL says when one side's certificate, not the network, is the reason. A connection that merely breaks off
# in the middle of a handshake is a sick broker.
_CERTIFICATE_WORDS = (
    "CERTIFICATE_VERIFY_FAILED",
    "CERTIFICATE_REQUIRED",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "BAD_CERTIFICATE",
    "UNSUPPORTED_CERTIFICATE",
    "UNKNOWN_CA",
    "HANDSHAKE_FAILURE",
    "WRONG_VERSION_NUMBER",
    "ALERT CERTIFICATE REQUIRED",
    "ALERT BAD CERTIFICATE",
    "ALERT UNKNOWN CA",
)


def library_settings(cluster: Cluster) -> Mapping[str, Any]:
    """Return the keyword arguments for kafka-python. Raises CredentialRefused when a file cannot be used."""
    security = cluster.security
    settings: dict[str, Any] = {
        "bootstrap_servers": list(cluster.bootstrap),
        "client_id": "tideover",
        "security_protocol": security.protocol,
        "receive_message_max_bytes": RECEIVE_LIMIT_BYTES,
        "max_in_flight_requests_per_connection": IN_FLIGHT,
        "slow_task_threshold_secs": 0,  # decoding 100,000 partitions takes a second, and that is no fault
    }
    if security.protocol.endswith("SSL"):
        settings["ssl_context"] = _tls_context(security)
    if security.sasl is not None:
        settings["sasl_mechanism"] = security.sasl.mechanism
        settings["sasl_plain_username"] = security.sasl.username
        settings["sasl_plain_password"] = security.sasl.password.get_secret_value()
    return settings


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
        if any(word in text for word in _CERTIFICATE_WORDS):
            return f"TLS: {_sentence(outcome)}"
    return None


def _sentence(error: BaseException) -> str:
    return str(error.args[0]) if error.args else type(error).__name__


def _tls_context(security: Security) -> ssl.SSLContext:
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
            password = security.key_password
            # Without a password OpenSSL would ask on the terminal and wait there; an empty one fails at once.
            context.load_cert_chain(
                security.cert, security.key, password=lambda: password.get_secret_value() if password else ""
            )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise CredentialRefused(
            f"{what} cannot be loaded: {reason}",
            hint="check the files under security: PEM format, readable, key and certificate of one pair, key_password",
        ) from None  # the cause is told in words; its own text may quote what it was given
    return context
