"""The examples for Airflow and for two operators of Kubernetes: known fields, names that agree, and a restart at 75.

No scheduler runs here; ``tests/real/test_schedulers.py`` runs Airflow where it is installed. ``FIELDS`` has the type of
each field that an example uses, as read in the operator's schema: ``SparkApplication`` of
apache/spark-kubernetes-operator at d5acafd, and of kubeflow/spark-operator at 38082f3. Each example was also held
against the whole schema by hand.
"""

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate

from orchestrator.config.load import load
from streaming.companion.jar import companion_jar
from tests.contract.test_imports import ROOT
from tests.contract.test_kubernetes import VERSIONS

FOLDER = ROOT / "conf" / "operators"
JAVA = ROOT / "streaming" / "companion" / "java"
APACHE, KUBEFLOW = "apache", "kubeflow"
FIELDS: dict[str, dict[str, type]] = {
    APACHE: {
        "spec.pyFiles": str,
        "spec.driverArgs[]": str,
        "spec.runtimeVersions.sparkVersion": str,
        "spec.sparkConf.*": str,
        "spec.applicationTolerations.restartConfig.restartPolicy": str,
        "spec.applicationTolerations.restartConfig.maxRestartAttempts": int,
        "spec.applicationTolerations.restartConfig.restartBackoffMillis": int,
        "spec.applicationTolerations.restartConfig.restartCounterResetMillis": int,
    },
    KUBEFLOW: {
        "spec.type": str,
        "spec.mode": str,
        "spec.sparkVersion": str,
        "spec.image": str,
        "spec.mainApplicationFile": str,
        "spec.arguments[]": str,
        "spec.deps.jars[]": str,
        "spec.sparkConf.*": str,
        "spec.restartPolicy.type": str,
        "spec.restartPolicy.onFailureRetries": int,
        "spec.restartPolicy.onFailureRetryInterval": int,
        "spec.restartPolicy.onSubmissionFailureRetries": int,
        "spec.restartPolicy.onSubmissionFailureRetryInterval": int,
        "spec.driver.serviceAccount": str,
        "spec.driver.secrets[].name": str,
        "spec.driver.secrets[].path": str,
        "spec.driver.secrets[].secretType": str,
        "spec.driver.configMaps[].name": str,
        "spec.driver.configMaps[].path": str,
        "spec.executor.instances": int,
    },
}
PODS = {APACHE: ("driverSpec.podTemplateSpec",), KUBEFLOW: ("driver.volumeMounts", "executor.volumeMounts", "volumes")}
"""What belongs to Kubernetes itself, below ``spec``: held against its own schemas."""
REQUIRED = {
    APACHE: {"spec.runtimeVersions.sparkVersion"},
    KUBEFLOW: {"spec.type", "spec.sparkVersion", "spec.mainApplicationFile", "spec.driver.serviceAccount",
               "spec.executor.instances"},
}  # fmt: skip
KINDS = {APACHE: "spark.apache.org/v1", KUBEFLOW: "sparkoperator.k8s.io/v1beta2"}


def example(name: str) -> Any:
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


def common() -> dict[str, dict[str, Any]]:
    """By kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((FOLDER / "common.yaml").read_text(encoding="utf-8"))}


def at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[key]
    return document


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Each value with its path; an element of a list is ``[]``, and a key of ``sparkConf`` is ``*``."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{'*' if path.endswith('sparkConf') else key}")
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, f"{path}[]")
    else:
        yield path, value


def of_the_operator(name: str) -> dict[str, Any]:
    found = leaves(example(name)["spec"], "spec")
    return {path: value for path, value in found if not path.startswith(tuple(f"spec.{each}" for each in PODS[name]))}


@pytest.mark.parametrize("name", FIELDS)
def test_an_example_has_only_fields_of_its_operator(name: str) -> None:
    found = of_the_operator(name)
    assert (example(name)["apiVersion"], example(name)["kind"]) == (KINDS[name], "SparkApplication")
    assert {path: type(value) for path, value in found.items()} == FIELDS[name]
    assert REQUIRED[name] <= found.keys()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", FIELDS)
def test_the_pods_of_an_example_are_what_kubernetes_takes(name: str, version: str) -> None:
    spec = example(name)["spec"]
    if name == APACHE:
        template = at(spec, PODS[name][0])
    else:
        container = {"name": "driver", "volumeMounts": spec["driver"]["volumeMounts"]}
        template = {"spec": {"containers": [container], "volumes": spec["volumes"]}}
        assert spec["executor"]["volumeMounts"] == spec["driver"]["volumeMounts"]
    pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "shop"}, "template": template}
    assert validate(pod, version, strict=True) == version
    for document in common().values():
        assert validate(document, version, strict=True) == version


@pytest.mark.parametrize("name", FIELDS)
def test_a_moved_query_is_started_again_and_a_finished_job_is_not(name: str) -> None:
    found = of_the_operator(name)
    if name == APACHE:
        restart = example(name)["spec"]["applicationTolerations"]["restartConfig"]
        assert restart["restartPolicy"] == "OnFailure"
        assert restart["restartCounterResetMillis"] > 0, "moves would use the count up"
        assert restart["maxRestartAttempts"] * restart["restartBackoffMillis"] >= 15 * 60_000, "time for take-over"
    else:
        assert found["spec.restartPolicy.type"] == "OnFailure"
        assert min(found[f"spec.restartPolicy.on{each}FailureRetries"] for each in ("", "Submission")) >= 10_000


@pytest.mark.parametrize("name", FIELDS)
def test_the_plugin_finds_its_configuration_its_secret_and_its_data(name: str, tmp_path: Path) -> None:
    spec, kinds = example(name)["spec"], common()
    conf, text = spec["sparkConf"], (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    for kind in ("ConfigMap", "PersistentVolumeClaim", "ServiceAccount"):
        assert kinds[kind]["metadata"]["name"] in text
    java = "".join(each.read_text(encoding="utf-8") for each in JAVA.rglob("*.java"))
    ours = {key for key in conf if key.startswith("spark.tideover.")}
    assert {key for key in ours if f'"{key}"' not in java} == set()
    assert "class AttachPlugin" in java
    assert conf["spark.plugins"] == "tideover.AttachPlugin"
    assert Path(conf["spark.jars"] if name == APACHE else spec["deps"]["jars"][0]).name == companion_jar().name
    config = kinds["ConfigMap"]["data"]["tideover.yaml"]
    (token,) = re.findall(r"file:(\S+)/token", config)
    mounted = (
        conf["spark.kubernetes.driver.secrets.shop-tideover"]
        if name == APACHE
        else spec["driver"]["secrets"][0]["path"]
    )
    assert token == mounted
    (tmp_path / "token").write_text("x" * 40)
    (tmp_path / "tideover.yaml").write_text(config.replace(token, str(tmp_path)), encoding="utf-8")
    settings = load(tmp_path / "tideover.yaml", {}).settings
    assert tuple(settings.attached) == (example(name)["metadata"]["name"],)
    assert {str(query.checkpoint).startswith("/data/shop/") for query in settings.queries.values()} == {True}
    assert conf["spark.kubernetes.driverEnv.TIDEOVER_STATE"].startswith("/data/")


@pytest.mark.parametrize("name", FIELDS)
def test_the_drivers_rights_are_those_that_spark_needs_in_its_own_namespace(name: str) -> None:
    kinds = common()
    (rule,) = kinds["Role"]["rules"]
    assert (rule["apiGroups"], "secrets" in rule["resources"]) == ([""], False)
    account = kinds["ServiceAccount"]["metadata"]["name"]
    assert [each["name"] for each in kinds["RoleBinding"]["subjects"]] == [account]
    spec = example(name)["spec"]
    key = "spark.kubernetes.authenticate.driver.serviceAccountName"
    assert (spec["sparkConf"].get(key) or spec["driver"]["serviceAccount"]) == account


class FakeDag:
    """In place of Airflow's: it only notes its name."""

    def __init__(self, name: str, **_: object) -> None:
        self.name = name

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


def test_the_dag_for_airflow_tries_again_and_adds_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    sdk, spark = ModuleType("airflow.sdk"), ModuleType("airflow.providers.apache.spark.operators.spark_submit")
    monkeypatch.setattr(sdk, "DAG", FakeDag, raising=False)
    monkeypatch.setattr(spark, "SparkSubmitOperator", lambda **known: made.append(known), raising=False)
    for module in (sdk, spark):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    dag = runpy.run_path(str(ROOT / "conf" / "airflow" / "shop.py"))["dag"]
    (task,) = made
    assert dag is None
    assert task["name"] == "shop"
    assert task["retries"] >= 1000
    assert task["conf"]["spark.plugins"] == "tideover.AttachPlugin"
    assert task["conf"]["spark.tideover.config"]
    assert Path(task["jars"]).name == companion_jar().name
