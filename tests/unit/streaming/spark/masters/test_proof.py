"""What proves that a process has ended: its own host, else the cluster manager that runs its driver."""

import pytest

from state.messages import Process, Proof
from state.settings.keys import Spark
from streaming.process import own_identity
from streaming.spark.masters.proof import prove_gone
from tests.json_server import attempt_xml, json_server

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


def test_a_local_driver_is_not_looked_for_at_a_cluster_manager() -> None:
    local = ELSEWHERE.model_copy(update={"spark_master": "local[4]"})
    proof, detail = proof_of(local)
    assert (proof, "YARN" in detail) == (None, False)
