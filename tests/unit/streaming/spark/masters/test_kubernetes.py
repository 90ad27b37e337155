"""What the answers of Kubernetes prove of a driver's pod: only what the kubelet of its node has seen."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from streaming.spark.masters import kubernetes
from streaming.spark.masters.kubernetes import own_pod, pod_ended
from tests.kubernetes_api import (
    DRIVER,
    NAME,
    POD,
    RUNNING,
    UID,
    KubernetesApi,
    enter_pod,
    kubernetes_api,
    pod,
    terminated,
    token_of,
)

WHO = "pod shop/shop-driver"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with kubernetes_api(tmp_path_factory.mktemp("kubernetes")) as made:
        yield made


@pytest.fixture
def api(served: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesApi:
    """The API as it is at first, and a service account of this process."""
    served.pods, served.may_get, served.delay, served.answer = {}, True, 0.0, None
    served.token = token_of(name=NAME, uid=UID)
    enter_pod(served, tmp_path / "account", monkeypatch)
    return served


def refused(detail: str) -> None:
    """The end is not proven, and one sentence says why."""
    ending = pod_ended(POD)
    assert (ending.is_proven, detail in ending.detail, "\n" in ending.detail) == (False, True, False), ending.detail


@pytest.mark.parametrize(("phase", "code"), [("Failed", 137), ("Failed", 1), ("Succeeded", 0)])
def test_the_end_of_a_container_that_its_node_has_seen_is_proof(api: KubernetesApi, phase: str, code: int) -> None:
    api.has(pod(phase, terminated(code)))
    ending = pod_ended(POD)
    seen = f"Kubernetes says that {WHO} is {phase}: container {DRIVER} ended with exit code {code}"
    assert (ending.is_proven, ending.detail) == (True, seen)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", None])
@pytest.mark.parametrize("state", [RUNNING, terminated()])
def test_a_pod_that_is_not_over_has_not_ended(
    api: KubernetesApi, phase: str | None, state: Mapping[str, object]
) -> None:
    """A container that ended may be started again, and a lost node's pod stays as it was reported last."""
    api.has(pod(phase, state))
    refused(f"Kubernetes says that {WHO} is {phase}")


def test_a_pod_that_is_being_deleted_has_not_ended(api: KubernetesApi) -> None:
    api.has(pod("Running", RUNNING, deletionTimestamp="2026-03-01T12:05:00Z"))
    refused(f"{WHO} is Running and is being deleted")


@pytest.mark.parametrize(
    "state",
    [
        RUNNING,
        {"waiting": {"reason": "ContainerCreating"}},
        terminated(reason="ContainerStatusUnknown"),
        terminated(255, reason="Unknown"),
        terminated(containerID=""),
        {"terminated": {"reason": "Error", "containerID": "containerd://4f1d"}},
        {"terminated": None},
        {},
    ],
    ids=["running", "waiting", "lost by its kubelet", "lost by its runtime", "never begun", "no code", "null", "empty"],
)
def test_a_pod_called_failed_without_its_node_has_not_ended(api: KubernetesApi, state: Mapping[str, object]) -> None:
    """The collector of garbage calls the pods of a lost node Failed, and their processes may run on."""
    api.has(pod("Failed", state))
    refused(f"{WHO} is Failed, but its node has not seen the end of container {DRIVER}")


def test_each_container_that_runs_beside_the_driver_has_to_end(api: KubernetesApi) -> None:
    found = pod("Failed", terminated())
    found["spec"]["containers"].append({"name": "log"})
    found["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}]
    api.has(found)
    refused("of container log, proxy")
    found["status"]["containerStatuses"].append({"name": "log", "state": terminated(0)})
    found["status"]["initContainerStatuses"] = [{"name": "proxy", "state": terminated(0)}]
    ending = pod_ended(POD)
    assert (ending.is_proven, ending.detail.count("ended with exit code")) == (True, 3)


def test_another_pod_of_the_name_proves_nothing(api: KubernetesApi) -> None:
    api.has(pod("Failed", terminated(), uid="another"))
    refused(f"{WHO} is another one now, which does not prove that the earlier one ended")


def test_a_pod_that_is_gone_proves_nothing(api: KubernetesApi) -> None:
    refused(f"Kubernetes no longer has {WHO}, which proves no end")


def test_a_service_account_without_the_right_gets_no_proof(api: KubernetesApi) -> None:
    api.has(pod("Failed", terminated()))
    api.may_get = False
    refused("this service account may not get pods in namespace shop: add that to its Role")


def test_a_token_is_read_for_each_request_because_it_rotates(api: KubernetesApi) -> None:
    api.has(pod("Failed", terminated()))
    api.token = token_of(name="later", uid=UID)
    refused("Kubernetes does not accept the token of this service account")
    (kubernetes.ACCOUNT / "token").write_text(api.token, encoding="ascii")
    assert pod_ended(POD).is_proven
    (kubernetes.ACCOUNT / "token").unlink()
    refused("the token of https://127.0.0.1")


def test_an_answer_that_takes_too_long_proves_nothing(api: KubernetesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "SECONDS", 0.2)
    api.has(pod("Failed", terminated()))
    api.delay = 2.0
    refused("timed out")


def test_a_server_of_another_authority_proves_nothing(api: KubernetesApi) -> None:
    api.has(pod("Failed", terminated()))
    (kubernetes.ACCOUNT / "ca.crt").write_bytes((api.folder / "stranger.pem").read_bytes())
    refused("certificate verify failed")
    (kubernetes.ACCOUNT / "ca.crt").unlink()
    refused("Kubernetes did not answer")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (500, "answers 500"),
        (302, "answers 302"),
        (b"<html>", "does not answer as the API of Kubernetes"),
        (b"[]", "its answer is no pod"),
        (b"null", "its answer is no pod"),
        (b"{}", "its answer is no pod"),
        (b'{"kind": "Pod", "metadata": {}}', "its answer is no pod"),
        (b'{"kind": "Status", "metadata": {"namespace": "shop", "name": "shop-driver"}}', "its answer is no pod"),
        (b'{"kind": "Pod", "metadata": {"namespace": "shop", "name": "other"}}', "its answer is no pod"),
        (
            f'{{"kind": "Pod", "metadata": {{"namespace": "shop", "name": "{NAME}", "uid": "{UID}"}},'
            ' "spec": {"containers": null}, "status": {"phase": "Failed"}}'.encode(),
            "its answer is no pod",
        ),
        (
            f'{{"kind": "Pod", "metadata": {{"namespace": "shop", "name": "{NAME}", "uid": "{UID}"}}}}'.encode(),
            "its answer is no pod",
        ),
    ],
)
def test_a_bad_answer_proves_nothing_and_is_one_sentence(api: KubernetesApi, answer: object, sentence: str) -> None:
    api.answer = answer
    refused(sentence)


def test_an_api_that_is_not_there_proves_nothing(api: KubernetesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    refused("Kubernetes did not answer")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    refused("https://[::1]:1 does not answer")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    refused(f"{WHO} cannot be looked up from outside of Kubernetes")


@pytest.mark.parametrize("text", ["shop", "shop/shop-driver", f"shop/../{UID}", f"shop/a?b/{UID}", f"{POD}/log"])
def test_only_a_pod_with_its_uid_is_looked_for(api: KubernetesApi, text: str) -> None:
    assert pod_ended(text).detail == f"{text} is no pod of Kubernetes"


def test_the_own_pod_is_named_by_the_token(api: KubernetesApi, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_pod() == POD
    for text in (token_of(), "", "x", "a.b.c", token_of(name="x/y", uid=UID), "a.bnVsbA.c"):
        (kubernetes.ACCOUNT / "token").write_text(text, encoding="ascii")
        assert own_pod() is None
    (kubernetes.ACCOUNT / "token").unlink()
    assert own_pod() is None
    (kubernetes.ACCOUNT / "token").write_text(api.token, encoding="ascii")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert own_pod() is None
