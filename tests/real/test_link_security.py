"""Credentials against real listeners: the right ones work, wrong ones are reported as such, never as a dead cluster."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab import java
from lab.world import KAFKA_VERSIONS
from orchestrator.cli.app import main
from orchestrator.config.load import load
from state.model.cluster_status import Fault, Layer
from state.settings.keys import Cluster
from state.settings.security import Security
from streaming.errors import CredentialRefused
from streaming.jars import java_home_binary
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


# -- the file of Kafka's own tools ---------------------------------------------------------------------------------
def properties(file: Path, found: Mapping[str, object]) -> Path:
    file.write_text("".join(f"{key}={value}\n" for key, value in found.items()), encoding="ascii")
    return file


def over_tls(files: Path, folder: Path) -> dict[str, object]:
    both = folder / "both.pem"
    both.write_text((files / "client.key").read_text() + (files / "client.pem").read_text(), encoding="ascii")
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files / "ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": both,
        "ssl.key.password": SECRET,
    }


def by_password(password: str) -> dict[str, object]:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{login} required username="ann" password="{password}";',
    }


def kafka_lists_topics(address: str, file: Path) -> None:
    """Kafka's own tool takes the file."""
    tool = java.command("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, "--list",
                        "--command-config", str(file), heap_mb=64)  # fmt: skip
    jars = {"CLASSPATH": java.classpath(KAFKA_VERSIONS[0], print)}
    said = subprocess.run(tool, env=jars, capture_output=True, text=True, timeout=300, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


def test_init_logs_in_by_the_files_of_kafkas_own_tools(
    tls: str, sasl: str, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    east = properties(tmp_path / "east.properties", over_tls(files, tmp_path))
    west = properties(tmp_path / "west.properties", by_password(SECRET))
    kafka_lists_topics(tls, east)
    made = tmp_path / "made" / "tideover.yaml"
    made.parent.mkdir()
    words = ["init", "--cluster", f"east={tls}", "--cluster", f"west={sasl}", "--write", str(made)]
    wrong = properties(tmp_path / "wrong.properties", by_password("wrong-horse"))
    assert main([*words, "--command-config", f"east={east}", "--command-config", str(wrong)]) == 2
    said = capsys.readouterr().err
    assert "refuses us: SASL" in said
    assert ("wrong-horse" in said, SECRET in said, list(made.parent.iterdir())) == (False, False, [])
    assert main([*words, "--command-config", f"east={east}", "--command-config", str(west)]) == 0
    assert SECRET not in made.read_text() + capsys.readouterr().err
    for name, cluster in load(made).settings.clusters.items():
        with Link(cluster, name=name) as link:
            assert link.describe(["t"], timeout=60)["t"].name == "t"


def test_the_commands_for_javas_stores_write_what_init_reads(
    tls: str, sasl: str, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = java_home_binary().parent
    keytool = f"{folder}/keytool" if (folder / "keytool").exists() else "keytool"

    def run(command: str, *typed: str) -> None:
        """A command line as a person types it, with what its prompts get."""
        line = command.replace("keytool", keytool)
        done = subprocess.run(["bash", "-c", line], input="\n".join((*typed, "")), cwd=tmp_path, capture_output=True,
                              text=True, timeout=300, check=False, start_new_session=True)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    run(f"openssl pkcs12 -export -in {files}/client.pem -inkey {files}/client.key -passin pass:{SECRET} "
        f"-out made.p12 -passout pass:{SECRET}")  # fmt: skip
    run(f"keytool -importkeystore -srckeystore made.p12 -srcstorepass {SECRET} -destkeystore own.jks "
        f"-deststoretype JKS -deststorepass {SECRET}")  # fmt: skip
    run(f"keytool -importcert -noprompt -file {files}/ca.pem -keystore trust.jks -storetype JKS -storepass {SECRET}")
    stores = {
        "security.protocol": "SSL",
        "ssl.truststore.location": tmp_path / "trust.jks", "ssl.truststore.password": SECRET,
        "ssl.keystore.location": tmp_path / "own.jks", "ssl.keystore.password": SECRET,
    }  # fmt: skip
    east = properties(tmp_path / "east.properties", stores)
    kafka_lists_topics(tls, east)
    west = properties(tmp_path / "west.properties", by_password(SECRET))
    words = ["init", "--cluster", f"east={tls}", "--cluster", f"west={sasl}", "--write", str(tmp_path / "made.yaml"),
             "--command-config", f"east={east}", "--command-config", f"west={west}"]  # fmt: skip
    assert main(words) == 2
    trust, own = re.findall(r"and only PEM is read; type: (.*?); then write", capsys.readouterr().err)
    run(trust, SECRET)
    convert, write = own.split(" && ")
    run(convert, SECRET, SECRET, SECRET)
    run(write, SECRET)
    pem = {"ssl.truststore.type": "PEM", "ssl.truststore.location": tmp_path / "ca.pem",
           "ssl.keystore.type": "PEM", "ssl.keystore.location": tmp_path / "client.pem"}  # fmt: skip
    properties(east, {"security.protocol": "SSL", **pem})
    assert main(words) == 0
    look(tls, **load(tmp_path / "made.yaml").settings.clusters["east"].security.model_dump())
