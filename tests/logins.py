"""Real brokers that want a login of clients, beside a plain listener for the test itself."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.broker import running_broker
from tests.kdc import BROKER, Kdc
from tests.ports import free_port
from tests.tokens import AUDIENCE, TokenServer

_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@dataclass(frozen=True)
class LoginBroker:
    """A broker with two listeners."""

    address: str
    """Where clients have to log in."""
    plain: str
    """Where the test writes and reads."""


@contextmanager
def login_broker(
    folder: Path,
    protocol: str,
    mechanism: str,
    more: Mapping[str, str],
    java_options: Sequence[str] = (),
    advertised: str = "LISTEN",
    scram: Mapping[str, str] | None = None,
) -> Iterator[LoginBroker]:
    """A broker whose first listener has one mechanism; ``more`` are the settings of it, ``scram`` passwords by user.

    Clients are sent to ``advertised`` for it, where something else listens.
    """
    plain, controller = (f"127.0.0.1:{free_port()}" for _ in range(2))
    settings = {
        "listeners": f"LOGIN://LISTEN,PLAINTEXT://{plain},CONTROLLER://{controller}",
        "advertised.listeners": f"LOGIN://{advertised},PLAINTEXT://{plain}",
        "controller.quorum.voters": f"1@{controller}",
        "listener.security.protocol.map": f"LOGIN:{protocol},PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        **({"listener.name.login.sasl.enabled.mechanisms": mechanism} if mechanism else {}),
        **more,
    }
    with running_broker(folder, settings=settings, java_options=java_options, scram=scram) as address:
        yield LoginBroker(address, plain)


@contextmanager
def behind_password(folder: Path, files: Path, user: str, password: str) -> Iterator[LoginBroker]:
    """SASL_SSL, PLAIN, as most services in a cloud."""
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";'
    settings = {"listener.name.login.plain.sasl.jaas.config": login, **_keystore(files)}
    with login_broker(folder, "SASL_SSL", "PLAIN", settings) as broker:
        yield broker


@contextmanager
def behind_scram_and_certificate(folder: Path, files: Path, user: str, password: str) -> Iterator[LoginBroker]:
    """SASL_SSL, SCRAM-SHA-512, on a listener that wants a certificate of the client, too (KIP-684)."""
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    settings = {
        "listener.name.login.scram-sha-512.sasl.jaas.config": login,
        "listener.name.login.ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files / "ca.pem"),
        **_keystore(files),
    }
    with login_broker(folder, "SASL_SSL", "SCRAM-SHA-512", settings, scram={user: password}) as broker:
        yield broker


def _keystore(files: Path) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(files / "keystore.pem")}


@contextmanager
def behind_tokens(folder: Path, tokens: TokenServer, files: Path, **more: str) -> Iterator[LoginBroker]:
    """SASL_SSL, OAUTHBEARER, tokens checked by the provider's keys (JWKS); ``more`` settings with ``_`` for ``.``."""
    authority = (files / "ca.pem").read_text(encoding="ascii").replace("\n", "\\\\n")
    trust = 'unsecuredLoginStringClaim_sub="broker" '  # a broker only checks tokens, but its login wants one of its own
    trust += f'ssl.truststore.type="PEM" ssl.truststore.certificates="{authority}"'
    prefix = "listener.name.login.oauthbearer.sasl"
    settings = {
        f"{prefix}.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required {trust};",
        f"{prefix}.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"{prefix}.oauthbearer.jwks.endpoint.url": tokens.jwks,
        f"{prefix}.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.jwks.endpoint.url": tokens.jwks,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        **_keystore(files),
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.jwks}"]
    with login_broker(folder, "SASL_SSL", "OAUTHBEARER", settings, allowed) as broker:
        yield broker


@contextmanager
def behind_kerberos(folder: Path, kdc: Kdc) -> Iterator[LoginBroker]:
    """SASL_PLAINTEXT, GSSAPI; by a name, as Java looks up the name behind an address."""
    options = f'useKeyTab=true storeKey=true keyTab="{kdc.keytab("broker")}" principal="{BROKER}"'
    login = f"com.sun.security.auth.module.Krb5LoginModule required {options};"
    settings = {
        "listener.name.login.gssapi.sasl.jaas.config": login,
        "listener.name.login.gssapi.sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.service.name": "kafka",
    }
    realms = [f"-Djava.security.krb5.conf={kdc.configuration}"]
    with login_broker(
        folder, "SASL_PLAINTEXT", "GSSAPI", settings, realms, advertised="localhost:LISTEN_PORT"
    ) as broker:
        yield LoginBroker(broker.address.replace("127.0.0.1", "localhost"), broker.plain)
