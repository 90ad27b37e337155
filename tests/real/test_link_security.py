"""Credentials against real listeners: the right ones work, wrong ones are told as ours and never as a dead cluster."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.settings import Cluster, Security
from streaming.errors import CredentialRefused
from streaming.kafka.link import Link
from tests.broker import running_broker

pytestmark = pytest.mark.real

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server's certificate, a client's with an encrypted key, and a stranger's authority, all PEM."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)

    for authority in ("ca", "stranger"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{authority}.key", "-out",
                f"{authority}.pem", "-days", "2", "-subj", f"/CN={authority}")  # fmt: skip
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.plain", "-out", f"{name}.csr", "-subj",
                f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                f"{name}.pem", "-days", "2", "-copy_extensions", "copy")  # fmt: skip
    openssl("pkcs8", "-topk8", "-in", "client.plain", "-out", "client.key", "-passout", f"pass:{SECRET}")
    openssl("pkcs8", "-topk8", "-nocrypt", "-in", "server.plain", "-out", "server.key")
    joined = (folder / "server.key").read_text() + (folder / "server.pem").read_text()
    (folder / "keystore.pem").write_text(joined)
    return folder


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


def look(address: str, **security: object) -> None:
    """Ask one question; the broker may be a little late with its first answers."""
    with Link(Cluster(bootstrap=(address,), security=Security.model_validate(security)), name="east") as link:
        link.describe(["t"], timeout=30)


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
    with pytest.raises(CredentialRefused, match="TLS"):
        look(tls, protocol="SSL", ca=files / "stranger.pem")


def test_a_missing_client_certificate_is_our_fault(tls: str, files: Path) -> None:
    with pytest.raises(CredentialRefused, match="TLS"):
        look(tls, protocol="SSL", ca=files / "ca.pem")


def test_a_wrong_key_password_is_told_without_the_password(tls: str, files: Path) -> None:
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
