"""The manifests for Kubernetes: known fields only, names that agree, verbs that exist, no secret and no broad right."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.cli.app import cli
from orchestrator.config import load
from streaming.spark import service
from tests.wheel import ROOT

FOLDER = ROOT / "conf" / "kubernetes"
SECRETS = "/run/secrets/tideover"

TEXT, COUNT, FLAG = str, int, bool
LABELS = {"*": TEXT}
SELECTOR = {"matchLabels": LABELS}
META = {"name": TEXT, "labels": LABELS}
PROBE = {"exec": {"command": [TEXT]}, "periodSeconds": COUNT, "timeoutSeconds": COUNT, "failureThreshold": COUNT}
CONTAINER = {
    "name": TEXT,
    "image": TEXT,
    "command": [TEXT],
    "env": [{"name": TEXT, "value": TEXT}],
    "startupProbe": PROBE,
    "readinessProbe": PROBE,
    "resources": {"requests": {"cpu": TEXT, "memory": TEXT}, "limits": {"memory": TEXT}},
    "securityContext": {
        "allowPrivilegeEscalation": FLAG,
        "readOnlyRootFilesystem": FLAG,
        "capabilities": {"drop": [TEXT]},
    },
    "volumeMounts": [{"name": TEXT, "mountPath": TEXT, "readOnly": FLAG}],
}
VOLUME = {
    "name": TEXT,
    "configMap": {"name": TEXT},
    "secret": {"secretName": TEXT, "defaultMode": COUNT},
    "emptyDir": {"sizeLimit": TEXT},
    "persistentVolumeClaim": {"claimName": TEXT},
}
POD = {
    "automountServiceAccountToken": FLAG,
    "terminationGracePeriodSeconds": COUNT,
    "shareProcessNamespace": FLAG,
    "topologySpreadConstraints": [
        {"maxSkew": COUNT, "topologyKey": TEXT, "whenUnsatisfiable": TEXT, "labelSelector": SELECTOR}
    ],
    "securityContext": {
        "runAsNonRoot": FLAG,
        "runAsUser": COUNT,
        "runAsGroup": COUNT,
        "fsGroup": COUNT,
        "seccompProfile": {"type": TEXT},
    },
    "containers": [CONTAINER],
    "volumes": [VOLUME],
}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD}
CLAIM = {"metadata": META, "spec": {"accessModes": [TEXT], "resources": {"requests": {"storage": TEXT}}}}
KINDS: dict[tuple[str, str], object] = {
    ("apps/v1", "Deployment"): {"replicas": COUNT, "selector": SELECTOR, "template": TEMPLATE},
    ("apps/v1", "StatefulSet"): {
        "replicas": COUNT,
        "serviceName": TEXT,
        "selector": SELECTOR,
        "template": TEMPLATE,
        "volumeClaimTemplates": [CLAIM],
    },
    ("policy/v1", "PodDisruptionBudget"): {"minAvailable": COUNT, "selector": SELECTOR},
    ("v1", "Service"): {"clusterIP": TEXT, "selector": LABELS},
}
"""By API version and kind, what may stand in ``spec``: of the API of Kubernetes 1.32, the fields that are used here."""


def misfits(value: object, shape: object, path: str = "") -> Iterator[str]:
    """What does not fit a shape, by its path."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            yield f"{path} must be a group"
            return
        for key, inner in value.items():
            if key not in shape and "*" not in shape:
                yield f"{path}.{key} is not known"
            else:
                yield from misfits(inner, shape.get(key, shape.get("*")), f"{path}.{key}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{path} must be a list"
            return
        for index, inner in enumerate(value):
            yield from misfits(inner, shape[0], f"{path}[{index}]")
    elif type(value) is not shape:
        yield f"{path} must be {getattr(shape, '__name__', shape)}, not {value!r}"


def documents() -> list[dict[str, Any]]:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [each for name in listed for each in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))]


def workloads() -> list[dict[str, Any]]:
    return [each for each in documents() if "template" in each["spec"]]


def pods() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in workloads()]


def containers() -> list[dict[str, Any]]:
    return [container for pod in pods() for container in pod["containers"]]


@pytest.mark.parametrize("document", documents(), ids=lambda each: each["kind"])
def test_a_manifest_has_only_fields_that_kubernetes_knows(document: dict[str, Any]) -> None:
    shape = {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": META,
        "spec": KINDS[document["apiVersion"], document["kind"]],
    }
    assert list(misfits(document, shape)) == []


def test_a_misspelt_field_is_told() -> None:
    assert list(misfits({"replica": 2}, KINDS["apps/v1", "Deployment"])) == [".replica is not known"]


def test_every_selector_finds_the_pods_that_it_is_for() -> None:
    labels = {each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"].items() for each in workloads()}
    for document in documents():
        wanted = document["spec"]["selector"]
        wanted = wanted.get("matchLabels", wanted)
        assert labels[document["metadata"]["name"]] >= wanted.items(), document["kind"]


def test_what_is_mounted_is_a_volume_and_the_reverse() -> None:
    for each in workloads():
        pod, claims = each["spec"]["template"]["spec"], each["spec"].get("volumeClaimTemplates", [])
        volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}
        assert {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]} == volumes


def test_there_are_two_controllers_and_one_of_each_runner() -> None:
    assert {each["kind"]: each["spec"]["replicas"] for each in workloads()} == {"Deployment": 2, "StatefulSet": 1}


@pytest.mark.parametrize("container", containers(), ids=lambda each: each["name"])
def test_commands_and_probes_are_verbs_with_options_that_they_have(container: dict[str, Any]) -> None:
    commands = [
        container["command"],
        *(container[probe]["exec"]["command"] for probe in ("startupProbe", "readinessProbe")),
    ]
    for command in commands:
        assert command[:3] == ["tideover", "-c", "/etc/tideover/tideover.yaml"]
        known = {option for parameter in cli.commands[command[3]].params for option in parameter.opts}
        assert {word for word in command[4:] if word.startswith("-")} <= known


@pytest.mark.parametrize("pod", pods(), ids=lambda pod: pod["containers"][0]["name"])
def test_a_pod_has_no_right_that_it_does_not_need(pod: dict[str, Any]) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_a_runner_has_the_time_to_stop_and_a_place_to_write() -> None:
    (pod,) = (pod for pod in pods() if pod["containers"][0]["name"] == "runner")
    assert pod["terminationGracePeriodSeconds"] >= 2 * service.GRACE_SECONDS
    environment = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    writable = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"] if not mount.get("readOnly")}
    assert {environment[service.STATE], environment["HOME"], "/tmp"} <= writable
    assert "TIDEOVER_CACHE" not in environment, "the image says where it has the connector's jars"
    assert not any(jars_of_the_image().startswith(mount["mountPath"]) for mount in pod["containers"][0]["volumeMounts"])


def jars_of_the_image() -> str:
    (folder,) = set(re.findall(r"TIDEOVER_CACHE=(\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8")))
    return f"{folder}/"


def test_the_configuration_is_whole_and_holds_no_secret(tmp_path: Path) -> None:
    text = (FOLDER / "tideover.yaml").read_text(encoding="utf-8").replace(SECRETS, str(tmp_path))
    for name in ("ca.pem", "tideover.pem", "tideover.key", "east-key-password", "west-password"):
        (tmp_path / name).write_text("hush-hush", encoding="utf-8")
    (tmp_path / "store").write_text("postgresql+psycopg://tideover:hush-hush@db/tideover", encoding="utf-8")
    (tmp_path / "tideover.yaml").write_text(text, encoding="utf-8")
    settings = load(tmp_path / "tideover.yaml").settings  # refuses a secret that is written out
    runners = {
        command[command.index("--name") + 1]
        for command in (each["command"] for each in containers())
        if "run" in command
    }
    assert runners == set(settings.runners)
    assert settings.queries["revenue"].checkpoint == "/checkpoints/revenue"


def test_secrets_come_from_a_secret_that_is_not_among_the_manifests() -> None:
    assert "Secret" not in {document["kind"] for document in documents()}
    for pod in pods():
        (secret,) = (volume for volume in pod["volumes"] if "secret" in volume)
        assert secret["secret"]["defaultMode"] == 0o440
        mounts = [
            mount for each in pod["containers"] for mount in each["volumeMounts"] if mount["name"] == secret["name"]
        ]
        assert [(mount["mountPath"], mount["readOnly"]) for mount in mounts] == [(SECRETS, True)]
