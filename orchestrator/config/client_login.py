"""The login of a client's properties file: ``sasl.mechanism`` with its login module, as the group ``sasl``."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from orchestrator.config.client_tls import authority
from orchestrator.config.jaas import login_module
from orchestrator.config.property_reading import PropertyReading

BY_HAND = "write the group security by hand, as docs/security.md shows it"
_JAAS = "sasl.jaas.config"
_REGION = re.compile(r"\.([a-z]{2}(?:-[a-z]+)+-[0-9]+)\.amazonaws\.com(?:\.cn)?:[0-9]+$")
_CLIENT = "sasl.oauthbearer.client.credentials.client"
_RETRIEVERS = {None, "DefaultJwtRetriever", "ClientCredentialsJwtRetriever"}
_HARMLESS_OF_KERBEROS = ("storeKey", "doNotPrompt", "refreshKrb5Config", "isInitiator", "debug")

Options = dict[str, str]
"""Of a login module, by name. What a way to log in knows of them is taken out; what is left is a mistake."""


class _Way(NamedTuple):
    mechanisms: frozenset[str]
    handler: str | None
    """The class of callbacks that this login needs, without its package."""
    read: Callable[[PropertyReading, Options, Sequence[str]], dict[str, object]]


def login(reading: PropertyReading, servers: Sequence[str]) -> dict[str, object]:
    """The group ``sasl``; ``servers`` are the cluster's, as ``HOST:PORT``."""
    mechanism, text = reading.take("sasl.mechanism") or "GSSAPI", reading.take(_JAAS)
    handlers = [reading.take(f"sasl.{each}.callback.handler.class") for each in ("client", "login")]
    handler = _simple(next(filter(None, handlers), None))
    if text is None:
        reading.wrong(_JAAS, "it is missing, and a file of java.security.auth.login.config is not read here")
        return {}
    try:
        module = login_module(text)
    except ValueError as error:
        reading.wrong(_JAAS, str(error))
        return {}
    way = _WAYS.get(module.name)
    if way is None or mechanism not in way.mechanisms:
        reading.wrong(_JAAS, f"Tideover knows no login by {module.name} with {mechanism}; {BY_HAND}")
        return {}
    if handler != way.handler:
        needed = f"only with {way.handler}" if way.handler else "only without one"
        reading.wrong("sasl callback handler", f"{mechanism} is supported {needed}, not with {handler or 'none'}")
    options = dict(module.options)
    found = {"mechanism": mechanism, **way.read(reading, options, servers)}
    for name in sorted(options):
        reading.wrong(_JAAS, f"Tideover has no setting for the option {name}; {BY_HAND}")
    return found


def _simple(name: str | None) -> str | None:
    return None if name is None else name.rpartition(".")[2]


def _needed(reading: PropertyReading, options: Options, name: str) -> str:
    value = options.pop(name, "")
    if not value:
        reading.wrong(_JAAS, f"the option {name} is missing")
    return value


def _password(reading: PropertyReading, options: Options, _: Sequence[str]) -> dict[str, object]:
    user, password = (_needed(reading, options, name) for name in ("username", "password"))
    return {
        "username": reading.plain(f"{_JAAS}, username", user),
        "password": reading.secret(f"{_JAAS}, password", password, "password"),
    }


def _token(reading: PropertyReading, options: Options, _: Sequence[str]) -> dict[str, object]:
    """By a client's credentials: as options of the module (KIP-768), or as keys of their own (since Kafka 4.1)."""
    endpoint = reading.take("sasl.oauthbearer.token.endpoint.url")
    if endpoint is None:
        reading.wrong("sasl.oauthbearer.token.endpoint.url", "it is missing")
    retriever = _simple(reading.take("sasl.oauthbearer.jwt.retriever.class"))
    if retriever not in _RETRIEVERS:
        reading.wrong("sasl.oauthbearer.jwt.retriever.class", f"Tideover knows no login by {retriever}; {BY_HAND}")
    newer = (reading.take(key) for key in (f"{_CLIENT}.id", f"{_CLIENT}.secret", "sasl.oauthbearer.scope"))
    older = (options.pop(name, None) for name in ("clientId", "clientSecret", "scope"))
    client, secret, scope = (new or old for new, old in zip(newer, older, strict=True))
    if not client or not secret:
        reading.wrong(_JAAS, f"clientId and clientSecret are missing, and so are {_CLIENT}.id and {_CLIENT}.secret")
    found: dict[str, object] = {
        "token_endpoint": endpoint,
        "client_id": reading.plain(f"{_JAAS}, clientId", client or ""),
        "client_secret": reading.secret(f"{_JAAS}, clientSecret", secret or "", "client_secret"),
    }
    if scope:
        found["scope"] = reading.plain(f"{_JAAS}, scope", scope)
    trusted = authority(reading, options, f"{_JAAS}, ", "token-ca.pem")
    return found if trusted is None else {**found, "ca": trusted}


def _kerberos(reading: PropertyReading, options: Options, _: Sequence[str]) -> dict[str, object]:
    for name in _HARMLESS_OF_KERBEROS:
        options.pop(name, None)
    by_table = options.pop("useKeyTab", "").lower() == "true"
    by_cache = options.pop("useTicketCache", "").lower() == "true"
    service = reading.take("sasl.kerberos.service.name") or options.pop("serviceName", None) or "kafka"
    principal, keytab = (_needed(reading, options, name) for name in ("principal", "keyTab"))
    if by_cache or not by_table:
        reading.wrong(_JAAS, "Tideover logs in by a key table only: useKeyTab=true useTicketCache=false")
    return {
        "principal": principal,
        "keytab": reading.existing(f"{_JAAS}, keyTab", keytab) if keytab else "",
        "service": service,
    }


def _iam(reading: PropertyReading, options: Options, servers: Sequence[str]) -> dict[str, object]:
    regions = {match[1] for match in map(_REGION.search, servers) if match is not None}
    if len(regions) != 1:
        reading.wrong("sasl.mechanism", f"the names of the brokers do not show the region; {BY_HAND}")
    for name in ("awsRoleSessionName", "awsStsRegion", "awsDebugCreds"):
        options.pop(name, None)
    profile, role = (options.pop(name, None) for name in ("awsProfileName", "awsRoleArn"))
    found: dict[str, object] = {"region": min(regions, default="")}
    named = {"profile": profile, "role": role}
    return found | {name: value for name, value in named.items() if value}


_WAYS: Mapping[str, _Way] = {
    "PlainLoginModule": _Way(frozenset({"PLAIN"}), None, _password),
    "ScramLoginModule": _Way(frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"}), None, _password),
    "OAuthBearerLoginModule": _Way(frozenset({"OAUTHBEARER"}), "OAuthBearerLoginCallbackHandler", _token),
    "Krb5LoginModule": _Way(frozenset({"GSSAPI"}), None, _kerberos),
    "IAMLoginModule": _Way(frozenset({"AWS_MSK_IAM"}), "IAMClientCallbackHandler", _iam),
}
"""By the class of the login module."""
