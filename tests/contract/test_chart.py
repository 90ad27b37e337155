"""The Helm chart: of one making with the plain manifests, and what helm renders of it is what Kubernetes takes."""

import hashlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate

from tests.contract.test_kubernetes import FOLDER, VERSIONS, documents
from tests.wheel import ROOT

CHART = ROOT / "conf" / "chart"
HELM = shutil.which("helm")
needs_helm = pytest.mark.skipif(HELM is None, reason="no helm on the path; made.sha256 is checked all the same")


def helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    assert HELM is not None
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=120, check=False)


def rendered(*arguments: str) -> dict[tuple[str, str], Any]:
    """What an installation would send, by kind and name."""
    done = helm("template", "tideover", str(CHART), *arguments)
    assert done.returncode == 0, done.stderr
    return by_name(each for each in yaml.safe_load_all(done.stdout) if each)


def by_name(objects: Any) -> dict[tuple[str, str], Any]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_chart_and_manifests_are_as_they_were_when_the_manifests_were_made() -> None:
    pairs = (line.split() for line in (FOLDER / "made.sha256").read_text(encoding="ascii").splitlines())
    listed = {name: digest for digest, name in pairs}
    own = {"kustomization.yaml", "tideover.yaml", "made.sha256"}
    files = [
        path for folder in (CHART, FOLDER) for path in folder.rglob("*") if path.is_file() and path.name not in own
    ]
    found = {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert found == listed, "run conf/make-manifests, which needs helm"


def test_chart_manifests_and_image_are_of_the_version_that_the_product_has() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (version, version)
    assert yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["image"].endswith(f":{version}")
    (image,) = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["images"]
    assert image["newTag"] == version
    assert f"\nARG VERSION={version}\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


@needs_helm
def test_the_chart_renders_the_manifests() -> None:
    assert rendered("--set", "configMap=tideover,image=tideover") == by_name(documents())


@needs_helm
def test_an_installation_with_other_values_is_what_kubernetes_takes(tmp_path: Path) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--set", "configMap=mine").stdout
    values = {
        "image": "registry.example/pipelines:1",
        "checkpoints": "",
        "runners": {"1": {"resources": {"limits": {"memory": "9Gi"}}}, "b": None},
        "runner": {"pod": {"nodeSelector": {"disk": "ssd"}}, "env": [{"name": "SPARK_LOCAL_HOSTNAME", "value": "one"}]},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    configuration = FOLDER / "tideover.yaml"
    objects = rendered("-f", str(tmp_path / "values.yaml"), "--set-file", f"configuration={configuration}")
    for each in objects.values():
        for version in VERSIONS:
            assert validate(each, version, strict=True) == version
    assert objects["ConfigMap", "tideover"]["data"] == {"tideover.yaml": configuration.read_text(encoding="utf-8")}
    template = objects["StatefulSet", "tideover-runner-1"]["spec"]["template"]
    assert set(template["metadata"]["annotations"]) == {"tideover/configuration"}, "pods are replaced when it changes"
    pod = template["spec"]
    assert (pod["nodeSelector"], pod["terminationGracePeriodSeconds"]) == ({"disk": "ssd"}, 60)
    assert "checkpoints" not in {volume["name"] for volume in pod["volumes"]}
    (runner,) = pod["containers"]
    assert runner["image"] == "registry.example/pipelines:1"
    assert runner["command"][runner["command"].index("--name") + 1] == "1"
    assert runner["resources"] == {"limits": {"memory": "9Gi"}}
    assert runner["env"][-1] == {"name": "SPARK_LOCAL_HOSTNAME", "value": "one"}
    assert ("StatefulSet", "tideover-runner-b") in objects


@needs_helm
def test_a_policy_lets_in_only_the_values_that_name_who(tmp_path: Path) -> None:
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    broker = {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"protocol": "TCP", "port": 9093}]}
    values = {"configMap": "mine", "networkPolicy": {"controller": {"from": [monitoring]}, "egress": [broker]}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    objects = rendered("-f", str(tmp_path / "values.yaml"))
    policies = {name: each for (kind, name), each in objects.items() if kind == "NetworkPolicy"}
    assert set(policies) == {"tideover", "tideover-controller"}
    for each in policies.values():
        assert validate(each, VERSIONS[0], strict=True) == VERSIONS[0]
    assert policies["tideover"]["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policies["tideover"]["spec"]["egress"] == [broker]
    assert policies["tideover-controller"]["spec"]["ingress"] == [
        {"from": [monitoring], "ports": [{"protocol": "TCP", "port": 8340}]}
    ]
    assert ("NetworkPolicy", "tideover") not in rendered("--set", "configMap=x,networkPolicy.enabled=false")


@needs_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("image=x", "no configuration: add --set-file configuration=tideover.yaml"),
        ("configMap=x,replicas=3", r"'replicas' not allowed|property replicas is not allowed"),
        ("configMap=x,controller.replicas=0", r"minimum: got 0, want 1|replicas: Must be greater than or equal to 1"),
    ],
)
def test_a_mistake_in_the_values_is_refused(values: str, said: str) -> None:
    done = helm("template", "tideover", str(CHART), "--set", values)
    assert done.returncode != 0
    assert re.search(said, done.stderr), "one of two versions of helm"
