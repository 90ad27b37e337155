"""Credentials as they are now: read again for a new connection, broken ones reported without what is in them."""

import ssl
import subprocess
from pathlib import Path

import pytest
from pydantic import SecretStr

from state.model.cluster_status import Fault
from state.model.entities import TopicPartition
from state.settings.keys import Cluster
from state.settings.security import Security
from streaming.errors import CredentialRefused
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.link import Link
from streaming.kafka.probe import Probe
from streaming.kafka.security import Credentials, refusal
from streaming.secrets import Broken, reveal
from streaming.spark.jvm import with_meaning
from streaming.spark.query.kafka_options import cluster_options
from tests.fakecluster import FakeCluster

DENIED_TOPIC, DENIED_CLUSTER = 29, 31


def scram(password: Path) -> Security:
    sasl = {"mechanism": "SCRAM-SHA-512", "username": "ann", "password": f"file:{password}"}
    return Security.model_validate({"protocol": "SASL_PLAINTEXT", "sasl": sasl})


def authority(folder: Path, name: str) -> Path:
    path = folder / f"{name}.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(folder / "key")]
    subprocess.run(["openssl", "req", "-x509", *kind, "-out", str(path), "-subj", f"/CN={name}"], check=True,
                   capture_output=True, timeout=60)  # fmt: skip
    return path


def test_a_changed_password_counts_for_the_next_connection_and_start(tmp_path: Path) -> None:
    file = tmp_path / "password"
    credentials, cluster = Credentials(scram(file)), Cluster(bootstrap=("e:1",), security=scram(file))
    for word in ("first", "second"):
        file.write_text(f"{word}\n")
        assert credentials.now()["sasl_plain_password"] == word
        assert f'password="{word}"' in cluster_options(cluster)["kafka.sasl.jaas.config"]


def test_only_a_changed_certificate_is_loaded_again(tmp_path: Path) -> None:
    ca, other = (authority(tmp_path, name) for name in ("ca", "stranger"))
    credentials = Credentials(Security(protocol="SSL", ca=ca))
    first = credentials.now()["ssl_context"]
    assert credentials.now()["ssl_context"] is first
    other.replace(ca)
    second: ssl.SSLContext = credentials.now()["ssl_context"]
    assert second is not first
    assert "stranger" in str(second.get_ca_certs())


def test_a_secret_that_went_away_is_ours_to_mend_by_every_path(tmp_path: Path) -> None:
    cluster = Cluster(bootstrap=("127.0.0.1:1",), security=scram(tmp_path / "gone"))
    with pytest.raises(CredentialRefused, match="gone is not a file"):
        cluster_options(cluster)
    with (
        Link(cluster, name="east") as link,
        pytest.raises(CredentialRefused, match=r"east: the password .* is not a file"),
    ):
        link.describe(["t"], timeout=60)
    probe = Probe(cluster, name="east", topics=(), memory=ProbeMemory())
    try:
        trouble = probe.run(5).trouble
    finally:
        probe.close()
    assert trouble is not None
    assert (trouble.kind, trouble.fault) == ("credential", Fault.OURS)


def test_a_reference_is_revealed_and_what_a_program_gave_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "swordfish")
    assert reveal(SecretStr("env:WORD")) == "swordfish"
    assert reveal(SecretStr("swordfish")) == "swordfish"
    with pytest.raises(Broken):
        reveal(SecretStr("env:NOWHERE"))


def test_a_secret_in_a_closed_folder_or_gone_while_it_is_read_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("swordfish")
    for name in ("is_file", "read_text"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, lambda *_, **__: file.with_name("gone").stat())
            with pytest.raises(Broken) as broken:
                reveal(SecretStr(f"file:{file}"))
        assert broken.value.why == f"{file} cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired", "has expired"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: IP address mismatch, ...", "another address"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate", "authority"),
        (
            "[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] sslv3 alert certificate expired",
            "(security.cert): it has expired, renew it",
        ),
        (
            "[SSL: SSLV3_ALERT_CERTIFICATE_UNKNOWN] sslv3 alert certificate unknown",
            "refuses our own certificate (security.cert), or misses it: name",
        ),
        ("[SSL: SSLV3_ALERT_BAD_CERTIFICATE] sslv3 alert bad certificate", "or misses it: name one"),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", "of an authority in the broker's truststore"),
        (
            "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required",
            "wants our own certificate (security.cert), or misses it: name",
        ),
    ],
)
def test_the_fault_of_a_certificate_is_named(said: str, meaning: str) -> None:
    assert meaning in (refusal(ssl.SSLError(1, said)) or "")


def test_a_missing_acl_is_named_by_operation_and_topic_per_partition_too() -> None:
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    with FakeCluster({"t": 2}) as fake, Link(Cluster(bootstrap=fake.bootstrap)) as link:
        fake.errors[("t", 0)] = DENIED_TOPIC
        looked, fetched = link.offsets({one: 0, other: 0}, timeout=60), link.fetch({one: (0, 1000)}, timeout=5)
        fake.errors[("t", 0)] = DENIED_CLUSTER
        strange = link.offsets({one: 0}, timeout=60)
    said = [error and error.text for error in (looked[one].error, fetched[one].error, strange[one].error)]
    assert looked[other].error is None
    assert said == [
        "our user has no ACL that allows Describe on topic t",
        "our user has no ACL that allows Read on topic t",
        "our user has no ACL on the cluster for this request (Describe of t)",
    ]


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("TopicAuthorizationException: Not authorized to access topics: [orders]", "no ACL on topic orders: a source"),
        (
            "TopicAuthorizationException: Topic authorization failed.",
            "no ACL on one of its topics: a source needs Read",
        ),
        ("x: GroupAuthorizationException: Not authorized to access group: g", "Read on group g"),
        ("NoSuchAlgorithmException: PBES2 SecretKeyFactory not available", "-v1 PBE-SHA1-3DES"),
        ("SaslAuthenticationException: Authentication failed", "security.sasl"),
        ("CertificateExpiredException: NotAfter: Sat Nov 21 10:00:00 UTC 2026", "the broker's certificate has expired"),
        ("PKIX path validation failed: validity check failed", "the broker's certificate has expired"),
        ("SunCertPathBuilderException: unable to find valid certification path to requested target", "(security.ca)"),
        ("ValidatorException: PKIX path validation failed: signature check failed", "(security.ca)"),
        ("CertificateException: No subject alternative names matching IP address 10.0.0.1 found", "for another name"),
        ("CertificateException: No name matching east found", "for another name"),
        (
            "SSLHandshakeException: Received fatal alert: certificate_expired",
            "(security.cert): it has expired, renew it",
        ),
        *(
            (f"SSLHandshakeException: Received fatal alert: {alert}", "(security.cert), or misses it: name one that")
            for alert in ("certificate_unknown", "certificate_required", "bad_certificate", "unknown_ca")
        ),
    ],
)
def test_refusals_of_sparks_client_are_explained_behind_its_own_words(line: str, meaning: str) -> None:
    assert with_meaning(line).startswith(f"{line} (")
    assert meaning in with_meaning(line)
    assert with_meaning("the sink is down") == "the sink is down"
