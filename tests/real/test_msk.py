"""Logins by IAM of Amazon MSK, against a stand-in that computes each signature again (``tests/msk.py``).

Amazon's own libraries sign, in Python and in Spark; the brokers behind the gate are real.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from state.model.cluster_status import Fault
from state.settings.keys import Cluster
from state.settings.security import Security
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.probe import Probe
from streaming.probe.probe_result import ProbeResult
from tests.certificates import make_certificates
from tests.logins import LoginBroker, behind_scram_and_certificate
from tests.msk import KEY, REGION, SECRET, Gate, behind_iam
from tests.object_store import running_store
from tests.real.moving import moving
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.shared]

PASSWORD, KEY_PASSWORD = "correct-horse-2b7e", "battery-staple-51aa"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"), KEY_PASSWORD)


@pytest.fixture(scope="module")
def guarded(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoginBroker, Gate]]:
    with behind_iam(tmp_path_factory.mktemp("broker"), files) as guarded:
        yield guarded


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The credentials of this process, and no others that a machine may have."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def security_group(files: Path, **more: Any) -> dict[str, Any]:
    sasl = {"mechanism": "AWS_MSK_IAM", "region": REGION, **more}
    return {"protocol": "SASL_SSL", "ca": str(files / "ca.pem"), "sasl": sasl}


def looked(broker: LoginBroker, files: Path, **more: Any) -> ProbeResult:
    security = Security.model_validate(security_group(files, **more))
    probe = Probe(Cluster(bootstrap=(broker.address,), security=security), name="east", topics=(), memory=ProbeMemory())
    try:
        return probe.run(60.0)
    finally:
        probe.close()


def test_a_signed_login_passes_and_a_wrong_key_or_region_is_ours(
    guarded: tuple[LoginBroker, Gate], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, _ = guarded
    sight = looked(broker, files)
    assert sight.ok, sight.trouble
    refused = looked(broker, files, region="eu-west-1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    for each, words in ((refused, "Access denied"), (looked(broker, files), "the signature does not match")):
        assert each.trouble is not None
        assert (each.trouble.kind, each.trouble.fault) == ("credential", Fault.OURS)
        assert words in each.trouble.text


def test_a_process_without_an_identity_gets_one_clear_sentence(
    guarded: tuple[LoginBroker, Gate], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    sight = looked(guarded[0], files)
    assert sight.trouble is not None
    assert sight.trouble.fault is Fault.OURS
    assert sight.trouble.text.startswith("no credentials of AWS are found, or the metadata service")
    sight = looked(guarded[0], files, profile="nowhere")
    assert sight.trouble is not None
    assert sight.trouble.fault is Fault.OURS
    assert "profile nowhere" in sight.trouble.text


def test_a_gate_with_too_many_connects_holds_up_and_refuses_nothing(
    guarded: tuple[LoginBroker, Gate], files: Path
) -> None:
    broker, gate = guarded
    gate.refusal = "[4a1c]: Too many connects"
    try:
        sight = looked(broker, files)
    finally:
        gate.refusal = None
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault, sight.trouble.retriable) == ("throttled", Fault.HERE, True)
    until(lambda: looked(broker, files).ok, "logins pass again")


@pytest.mark.matrix
def test_a_query_moves_from_a_certificate_and_a_password_to_signatures(
    guarded: tuple[LoginBroker, Gate], files: Path, tmp_path: Path
) -> None:
    """Its checkpoint is on S3: the connector of that and the library that signs each have an SDK of Amazon."""
    broker, gate = guarded
    gate.shown.clear()
    for name, word in (("password", PASSWORD), ("key-password", KEY_PASSWORD)):
        (tmp_path / name).write_text(f"{word}\n", encoding="utf-8")
    both = {
        "protocol": "SASL_SSL",
        "ca": str(files / "ca.pem"),
        "cert": str(files / "client.pem"),
        "key": str(files / "client.key"),
        "key_password": f"file:{tmp_path / 'key-password'}",
        "sasl": {"mechanism": "SCRAM-SHA-512", "username": "ann", "password": f"file:{tmp_path / 'password'}"},
    }
    with running_store(tmp_path / "objects") as objects, ExitStack() as primary:
        dying = primary.enter_context(behind_scram_and_certificate(tmp_path / "east", files, "ann", PASSWORD))
        with moving(tmp_path / "scene", (dying, broker), (both, security_group(files)), objects) as scene:
            scene.assert_moves(primary.close)
    assert set(gate.shown) == {"AWS_MSK_IAM", "OAUTHBEARER"}, "Spark by the one, our own client by the other"
