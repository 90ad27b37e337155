"""What proves that a process has ended: its own host, else the cluster manager that runs its driver."""

from pathlib import Path

import pytest

from state.messages import Process, Proof
from state.settings.keys import Spark
from streaming.process import own_identity
from streaming.spark.masters.proof import prove_gone
from tests.json_server import attempt_xml, json_server
from tests.kubernetes_api import DRIVER, POD, RUNNING, enter_pod, kubernetes_api, pod, terminated

HERE = own_identity()
APPLICATION, ATTEMPT = "application_1_0007", "appattempt_1_0007_000001"
PATH = f"ws/v1/cluster/apps/{APPLICATION}"
ENDED = {
    f"{PATH}/appattempts/{ATTEMPT}": attempt_xml("FAILED", f"AM Container for {ATTEMPT} exited with  exitCode: 137"),
    PATH: {"app": {"state": "FINISHED"}},
}
GONE = Process(
    runner="shop", instance="other", host=HERE.host, boot_id=HERE.boot_id, pid=HERE.pid,
    pid_started=HERE.pid_started + 1, spark_master="yarn", application_id=ATTEMPT,
)  # fmt: skip
ELSEWHERE = GONE.model_copy(update={"host": "elsewhere"})
ALIVE = GONE.model_copy(update={"pid_started": HERE.pid_started})


def proof_of(hosting: Process, *, known: bool = True) -> tuple[Proof | None, str]:
    with json_server(**ENDED) as manager:
        found = prove_gone(HERE, Spark(master_ui=manager.url if known else None), hosting, "runner shop")
    return found.proof, found.detail


def test_yarn_proves_the_end_of_an_attempt_on_another_host() -> None:
    assert proof_of(ELSEWHERE) == (Proof.APPLICATION, f"YARN says that {ATTEMPT} ended with exit code 137")


def test_an_attempt_that_yarn_does_not_know_is_unknown() -> None:
    later = ELSEWHERE.model_copy(update={"application_id": ATTEMPT.replace("000001", "000002")})
    proof, detail = proof_of(later)
    assert proof is None
    assert detail.endswith("cannot check; YARN does not know appattempt_1_0007_000002")


def test_without_an_address_only_the_own_host_proves_anything() -> None:
    assert proof_of(ELSEWHERE, known=False)[0] is None
    assert proof_of(GONE, known=False)[0] is Proof.PROCESS


@pytest.mark.parametrize(("hosting", "proof"), [(ELSEWHERE, None), (ALIVE, None), (GONE, Proof.APPLICATION)])
def test_a_driver_outside_of_yarn_has_to_be_gone_itself(hosting: Process, proof: Proof | None) -> None:
    """In client mode an application is over for YARN once its master has lost the driver, which may run on."""
    client = hosting.model_copy(update={"application_id": APPLICATION})
    found, detail = proof_of(client)
    assert (found, f"YARN says that {APPLICATION} is FINISHED" in detail) == (proof, True)


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED"])
@pytest.mark.parametrize(("hosting", "proof"), [(ELSEWHERE, None), (ALIVE, None), (GONE, Proof.APPLICATION)])
def test_a_driver_that_a_standalone_master_has_lost_has_to_be_gone_itself(
    hosting: Process, proof: Proof | None, state: str
) -> None:
    """A master that has lost its connection to a driver calls the application FINISHED; the driver may run on."""
    driver = hosting.model_copy(update={"spark_master": "spark://one:7077", "application_id": "app-1"})
    ended = {"json/": {"activeapps": [], "completedapps": [{"id": "app-1", "state": state}]}}
    with json_server(**ended) as master:
        found = prove_gone(HERE, Spark(master_ui=master.url), driver, "runner shop")
    assert (found.proof, f"the master says that app-1 ended ({state})" in found.detail) == (proof, True), found
    assert found.detail.endswith(", which a driver can outlive") is (proof is None)


def test_a_local_driver_is_not_looked_for_at_a_cluster_manager() -> None:
    local = ELSEWHERE.model_copy(update={"spark_master": "local[4]"})
    proof, detail = proof_of(local)
    assert (proof, "YARN" in detail) == (None, False)


@pytest.mark.parametrize("master", ["local[4]", "k8s://https://one:6443", "spark://one:7077"])
def test_the_end_of_a_pod_is_the_end_of_its_driver(
    master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ELSEWHERE.model_copy(update={"spark_master": master, "application_id": "app-1", "pod": POD})
    with kubernetes_api(tmp_path) as api:
        enter_pod(api, tmp_path / "account", monkeypatch)
        api.has(pod("Running", RUNNING))
        proof, detail = proof_of(driver, known=False)
        assert (proof, f"{HERE.host} cannot check; Kubernetes says that pod shop/shop-driver is Running" in detail) == (
            None, True,
        )  # fmt: skip
        api.has(pod("Failed", terminated()))
        proof, detail = proof_of(driver, known=False)
        assert (proof, f"container {DRIVER} ended with exit code 137" in detail) == (Proof.APPLICATION, True)
        assert ("its executors end with it" in detail) is (not master.startswith("local"))


def test_executors_of_a_standalone_master_are_not_proven_by_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = ELSEWHERE.model_copy(update={"spark_master": "spark://one:7077", "application_id": "app-1", "pod": POD})
    with kubernetes_api(tmp_path) as api:
        enter_pod(api, tmp_path / "account", monkeypatch)
        api.has(pod("Failed", terminated()))
        proof, detail = proof_of(driver)
    assert proof is None
    assert detail.endswith("answers 404")
