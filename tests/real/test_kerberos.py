"""Kerberos on a real KDC and real brokers: our own client, Spark's, and what is wrong with either.

Without a KDC these tests are skipped, with the line that installs one.
"""

import os
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
from tests.kdc import CLIENT, REALM, Kdc, lacks, running_kdc
from tests.logins import LoginBroker, behind_kerberos
from tests.real.moving import moving

pytestmark = [pytest.mark.real, pytest.mark.shared, pytest.mark.skipif(lacks() is not None, reason=str(lacks()))]


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """This process and those that it starts use it."""
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", kdc.environment["KRB5_CONFIG"])
        yield kdc


@pytest.fixture(scope="module")
def broker(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with behind_kerberos(tmp_path_factory.mktemp("broker"), kdc) as broker:
        yield broker


def security_group(kdc: Kdc, **more: Any) -> dict[str, Any]:
    sasl = {"mechanism": "GSSAPI", "principal": CLIENT, "keytab": str(kdc.keytab("client")), **more}
    return {"protocol": "SASL_PLAINTEXT", "sasl": sasl}


def looked(broker: LoginBroker, kdc: Kdc, **more: Any) -> ProbeResult:
    security = Security.model_validate(security_group(kdc, **more))
    probe = Probe(Cluster(bootstrap=(broker.address,), security=security), name="east", topics=(), memory=ProbeMemory())
    try:
        return probe.run(60.0)
    finally:
        probe.close()


def test_a_key_table_is_enough_and_a_wrong_one_is_ours(broker: LoginBroker, kdc: Kdc) -> None:
    sight = looked(broker, kdc)
    assert sight.ok, sight.trouble
    kdc.add(f"old@{REALM}", "old")
    kdc.type("cpw", "-randkey", f"old@{REALM}")
    for more, words in (
        ({"principal": f"nobody@{REALM}"}, "nobody"),
        ({"principal": f"old@{REALM}", "keytab": kdc.keytab("old")}, "old.keytab: Decrypt integrity check failed"),
        ({"service": "another"}, "another/localhost"),
        ({"keytab": kdc.folder / "gone"}, "gone is not a file"),
    ):
        refused = looked(broker, kdc, **more)
        assert refused.trouble is not None
        assert (refused.trouble.kind, refused.trouble.fault) == ("credential", Fault.OURS), refused.trouble
        assert words in refused.trouble.text


def test_a_kdc_that_does_not_answer_is_no_wrong_credential(broker: LoginBroker, kdc: Kdc) -> None:
    assert kdc.process is not None
    port = int(kdc.configuration.read_text(encoding="ascii").partition("127.0.0.1:")[2].split()[0])
    kdc.stop()
    try:
        sight = looked(broker, kdc)
    finally:
        kdc.start(port)
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault, sight.trouble.retriable) == ("authentication", Fault.HERE, True)
    assert "Cannot contact any KDC" in sight.trouble.text


@pytest.mark.matrix
def test_a_query_moves_between_clusters_that_want_tickets(broker: LoginBroker, kdc: Kdc, tmp_path: Path) -> None:
    assert os.environ["KRB5_CONFIG"] == str(kdc.configuration)
    with ExitStack() as primary:
        dying = primary.enter_context(behind_kerberos(tmp_path / "east", kdc))
        with moving(tmp_path / "scene", (dying, broker), (security_group(kdc), security_group(kdc))) as scene:
            scene.assert_moves(primary.close)
