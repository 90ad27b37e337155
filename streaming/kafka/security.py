"""Turns a cluster's settings into kafka-python's, and distinguishes our own bad credentials from a sick cluster.

Files are read before a connection is tried: a missing certificate is then one clear sentence instead of a broker
that seems to hang up. Secrets go to the library and nowhere else; no sentence made here contains one.
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kafka import errors
from pydantic import SecretStr

from state.error_meanings import OURS, TLS, Meaning, meaning_of, meaning_of_authentication
from state.settings.keys import Cluster
from state.settings.security import ClientCredentials, Kerberos, MskIam, Password, Security
from streaming.errors import CredentialRefused
from streaming.kafka.login.client_credentials import client_credentials
from streaming.kafka.login.kerberos import KerberosLogin
from streaming.kafka.login.login_failed import LoginFailed
from streaming.kafka.login.msk_iam import msk_iam
from streaming.kafka.login.prepared import Login
from streaming.secrets import Broken, reveal

RECEIVE_LIMIT_BYTES = 200_000_000  # 100,000 partitions of metadata are 5 MB; a fetch may be as large as it requests
_IN_PYTHON = {"AWS_MSK_IAM": "OAUTHBEARER"}
"""MSK takes IAM by two mechanisms. Amazon's library for Python is for this one, kafka-python's own knows no role."""
IN_FLIGHT = 1000  # beyond it the library refuses instead of queueing


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

    def __init__(self, security: Security, login: Login | None = None) -> None:
        """``login`` is of ``login_of`` these settings, where others share it."""
        self._security = security
        self._loaded: tuple[object, ssl.SSLContext] | None = None
        self.login = login or login_of(security)
        """What has to be fetched before a connection can log in; None where a password is enough."""

    def now(self) -> Mapping[str, Any]:
        """The keyword arguments for kafka-python's next connection. Raises CredentialRefused."""
        security, settings = self._security, dict[str, Any]()
        if security.protocol.endswith("SSL"):
            settings["ssl_context"] = self._tls_context()
        if security.sasl is not None:
            settings["sasl_mechanism"] = _IN_PYTHON.get(security.sasl.mechanism, security.sasl.mechanism)
        if isinstance(security.sasl, Password):
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


def login_of(security: Security) -> Login | None:
    """What fetches tokens or tickets, and keeps them; one for all connections to a cluster that a process looks at."""
    sasl = security.sasl
    match sasl:
        case ClientCredentials():
            return client_credentials(sasl)
        case MskIam():
            return msk_iam(sasl)
        case Kerberos():
            return KerberosLogin(sasl)
        case _:
            return None


class Hindrance(NamedTuple):
    """Why something that lives does not let us in."""

    meaning: Meaning
    text: str


def hindrance(outcome: object) -> Hindrance | None:
    """What this outcome says of our credentials, or of a pause that the cluster needs; None where it is about neither.

    The class says little: a cluster that takes no more connections for a moment fails the authentication, too. So the
    text decides (``state.error_meanings``).
    """
    if isinstance(outcome, errors.UnsupportedSaslMechanismError | errors.IllegalSaslStateError):
        return Hindrance(Meaning.REFUSED, f"SASL: {_sentence(outcome)}")
    if isinstance(outcome, errors.SaslAuthenticationFailedError):
        found = outcome.found if isinstance(outcome, LoginFailed) else meaning_of_authentication(_sentence(outcome))
        said = "" if found.meaning is Meaning.REFUSED else f" ({found.sentence})"
        return Hindrance(found.meaning, f"SASL: {_sentence(outcome)}{said}")
    if isinstance(outcome, errors.AuthorizationError):
        return Hindrance(Meaning.REFUSED, _sentence(outcome))
    if isinstance(outcome, errors.ThrottlingQuotaExceededError):
        return Hindrance(Meaning.THROTTLED, _sentence(outcome))
    found_tls = meaning_of(str(outcome), TLS) if isinstance(outcome, BaseException) else None
    if found_tls is not None and isinstance(outcome, BaseException):
        return Hindrance(found_tls.meaning, f"TLS: {found_tls.sentence} ({_sentence(outcome)})")
    return None


def refusal(outcome: object) -> str | None:
    """Return the reason in words when this outcome shows that our credentials are at fault, else None."""
    found = hindrance(outcome)
    return found.text if found is not None and found.meaning in OURS else None


def is_throttled(outcome: object) -> bool:
    """Whether the cluster needs a pause by this outcome."""
    found = hindrance(outcome)
    return found is not None and found.meaning is Meaning.THROTTLED


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
            # Without a password OpenSSL would prompt on the terminal and wait there; an empty one fails at once.
            context.load_cert_chain(security.cert, security.key, password=lambda: password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise CredentialRefused(
            f"{what} cannot be loaded: {reason}",
            hint="check the files under security: PEM format, readable, key and certificate of one pair, key_password",
        ) from None  # the cause is said in words; its own text may quote what it was given
    return context
