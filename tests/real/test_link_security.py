"""Credentials against real listeners: the right ones work, wrong ones are reported as such, never as a dead cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state.model.cluster_status import Fault, Layer
from state.settings.keys import Cluster
from state.settings.security import Security
from streaming.errors import CredentialRefused
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.link import Link
from streaming.kafka.probe import Probe
from streaming.probe.probe_result import ProbeResult
from tests.broker import running_broker
from tests.certificates import make_certificates

pytestmark = pytest.mark.real

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"), SECRET)


@pytest.fixture(scope="module")
def tls(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files / "keystore.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files / "ca.pem"),
        "ssl.client.auth": "required",
    }
    with running_broker(tmp_path_factory.mktemp("tls-broker"), settings=settings) as address:
        yield address


@pytest.fixture(scope="module")
def sasl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f'{login} username="broker" password="b" user_broker="b" user_ann="{SECRET}";'
        ),
    }
    with running_broker(tmp_path_factory.mktemp("sasl-broker"), settings=settings) as address:
        yield address


def look(address: str, **security: Any) -> None:
    """Send one request; the broker may be a little late with its first answers."""
    with Link(Cluster(bootstrap=(address,), security=Security.model_validate(security)), name="east") as link:
        assert link.describe(["t"], timeout=60)["t"].name == "t"


def test_mutual_tls_with_an_encrypted_key(tls: str, files: Path) -> None:
    look(
        tls,
        protocol="SSL",
        ca=files / "ca.pem",
        cert=files / "client.pem",
        key=files / "client.key",
        key_password=SECRET,
    )


def test_a_server_of_another_authority_is_refused_by_us(tls: str, files: Path) -> None:
    with pytest.raises(CredentialRefused, match="certificate is not signed by an authority"):
        look(tls, protocol="SSL", ca=files / "stranger.pem")


def test_a_missing_client_certificate_is_our_fault(tls: str, files: Path) -> None:
    with pytest.raises(
        CredentialRefused, match=r"TLS: the broker .* our own certificate \(security.cert\).*: name one that"
    ):
        look(tls, protocol="SSL", ca=files / "ca.pem")


def test_a_wrong_key_password_is_reported_without_the_password(tls: str, files: Path) -> None:
    with pytest.raises(CredentialRefused) as refused:
        look(tls, protocol="SSL", ca=files / "ca.pem", cert=files / "client.pem", key=files / "client.key",
             key_password="wrong-horse")  # fmt: skip
    assert "wrong-horse" not in f"{refused.value!r} {refused.value.hint} {refused.value.__cause__!r}"


def test_sasl_with_the_right_password(sasl: str) -> None:
    look(sasl, protocol="SASL_PLAINTEXT", sasl={"mechanism": "PLAIN", "username": "ann", "password": SECRET})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_sasl_with_what_the_broker_does_not_take_is_our_fault(sasl: str, mechanism: str) -> None:
    with pytest.raises(CredentialRefused, match="SASL") as refused:
        look(
            sasl, protocol="SASL_PLAINTEXT", sasl={"mechanism": mechanism, "username": "ann", "password": "wrong-horse"}
        )
    assert "wrong-horse" not in f"{refused.value!r} {refused.value.hint}"


# -- the layered look ----------------------------------------------------------------------------------------------
def probe(address: str, **security: Any) -> ProbeResult:
    cluster = Cluster(bootstrap=(address,), security=Security.model_validate(security))
    each = Probe(cluster, name="east", topics=(), memory=ProbeMemory())
    try:
        return each.run(60.0)
    finally:
        each.close()


def assert_ours(sight: ProbeResult) -> None:
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault, sight.trouble.retriable) == ("credential", Fault.OURS, False)
    assert sight.seconds < 45, "a refusal is no silence"


def test_a_look_with_right_credentials_times_its_layers(tls: str, sasl: str, files: Path) -> None:
    ours = {"ca": files / "ca.pem", "cert": files / "client.pem", "key": files / "client.key", "key_password": SECRET}
    plain = {"mechanism": "PLAIN", "username": "ann", "password": SECRET}
    for sight in (probe(tls, protocol="SSL", **ours), probe(sasl, protocol="SASL_PLAINTEXT", sasl=plain)):
        assert sight.ok, sight.trouble
        assert [each.layer for each in sight.passed][:3] == [Layer.TCP, Layer.SECURITY, Layer.METADATA]
        assert all(each.ms > 0 for each in sight.passed)


def test_a_look_with_a_strangers_authority_or_no_certificate_is_ours_to_mend(tls: str, files: Path) -> None:
    assert_ours(probe(tls, protocol="SSL", ca=files / "stranger.pem"))
    assert_ours(probe(tls, protocol="SSL", ca=files / "ca.pem"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_look_with_a_password_that_is_not_taken_is_ours_to_mend(sasl: str, mechanism: str) -> None:
    wrong = {"mechanism": mechanism, "username": "ann", "password": "wrong-horse"}
    sight = probe(sasl, protocol="SASL_PLAINTEXT", sasl=wrong)
    assert_ours(sight)
    assert sight.layer is Layer.TCP
    assert "wrong-horse" not in repr(sight)


def test_a_look_of_the_wrong_protocol_is_ours_to_mend(tls: str, sasl: str, files: Path) -> None:
    plain = {"mechanism": "PLAIN", "username": "ann", "password": SECRET}
    for sight in (probe(tls), probe(sasl), probe(sasl, protocol="SSL", ca=files / "ca.pem"),
                  probe(tls, protocol="SASL_PLAINTEXT", sasl=plain)):  # fmt: skip
        assert sight.trouble is not None
        assert sight.trouble.fault is Fault.OURS, sight.trouble
