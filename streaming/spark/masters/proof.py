"""What proves that a process which hosted queries has ended: its own host, Kubernetes, or its application's manager.

Silence proves nothing. A name is given away, and a fence succeeds, only by what is seen here.
"""

from dataclasses import dataclass

from state.messages import Process, Proof
from state.model.entities import RunnerFact
from state.settings.keys import Spark
from streaming.process import Identity, end_orphans, is_gone, orphans
from streaming.spark.masters import kubernetes, standalone, yarn
from streaming.spark.masters.ending import Ending


@dataclass(frozen=True, slots=True)
class FenceFinding:
    """A proof, or None, and what was seen."""

    proof: Proof | None
    detail: str


def prove_gone(here: Identity, spark: Spark, hosting: Process, who: str) -> FenceFinding:
    """Whether a process has ended, its executors included."""
    if hosting.spark_master.startswith(("local", "k8s")):
        found = _process_gone(here, hosting, who)
        is_alone = found.proof is None or hosting.spark_master.startswith("local")
        return found if is_alone else FenceFinding(found.proof, f"{found.detail}; its executors end with it")
    application = manager_says(spark, hosting)
    if application.is_proven and not _is_outside(hosting):
        return FenceFinding(Proof.APPLICATION, application.detail)
    process = _process_gone(here, hosting, who)
    if process.proof is not None and application.is_proven:
        return FenceFinding(Proof.APPLICATION, f"{process.detail}; {application.detail}")
    if process.proof is not None and spark.master_ui is None:
        return FenceFinding(process.proof, f"{process.detail}; its executors end with it (spark.master_ui is not set)")
    alone = ", which a driver can outlive" if application.is_proven else ""
    return FenceFinding(None, f"{process.detail}; {application.detail}{alone}")


def manager_says(spark: Spark, hosting: Process | RunnerFact) -> Ending:
    """What the cluster manager of a process says of its application: on YARN of the attempt that it is, if any."""
    application = hosting.application_id
    if spark.master_ui is None or application is None:
        return Ending(False, "no cluster manager is known (spark.master_ui is not set)")
    if not hosting.spark_master.startswith("yarn"):
        return standalone.application_ended(spark.master_ui, application)
    if yarn.ATTEMPT.match(application):
        return yarn.attempt_ended(spark.master_ui, application)
    return yarn.application_over(spark.master_ui, application)


def driver_ended(spark: Spark, fact: RunnerFact) -> Ending:
    """What Kubernetes or YARN says of the driver itself, where it runs that; elsewhere nothing is proven."""
    if fact.pod is not None:
        return kubernetes.pod_ended(fact.pod)
    if fact.spark_master.startswith("yarn") and not _is_outside(fact):
        return manager_says(spark, fact)
    return Ending(False, "")


def _is_outside(hosting: Process | RunnerFact) -> bool:
    """Whether the driver is a process outside of its manager (client mode), which ends an application without it.

    A standalone master calls an application finished as soon as its connection to the driver is lost, and the driver
    waits for another one (``Master.onDisconnected``, ``StandaloneSchedulerBackend.disconnected``).
    """
    return yarn.ATTEMPT.match(hosting.application_id or "") is None


def _process_gone(here: Identity, hosting: Process, who: str) -> FenceFinding:
    gone = is_gone(hosting, here)
    if gone is None:
        if hosting.host == here.host:
            return FenceFinding(None, f"{who} ran before a reboot, and it is unknown whether of this machine")
        ending = Ending(False, "") if hosting.pod is None else kubernetes.pod_ended(hosting.pod)
        if ending.is_proven:
            return FenceFinding(Proof.APPLICATION, ending.detail)
        seen = f"; {ending.detail}" if ending.detail else ""
        return FenceFinding(None, f"{who} is on another host, which {here.host} cannot check{seen}")
    if not gone:
        return FenceFinding(None, f"{who} is alive and is not this process")
    if hosting.boot_id == here.boot_id and end_orphans(hosting.instance) and orphans(hosting.instance):
        return FenceFinding(None, f"{who} is gone, but the JVM that it launched is still ending")
    return FenceFinding(Proof.PROCESS, f"{who} is gone, and so is its JVM")
