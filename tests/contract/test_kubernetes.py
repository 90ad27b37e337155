"""The manifests for Kubernetes: what its schemas allow, names that agree, known verbs, no secret, no broad right."""

import copy
import os
import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from kubernetes_validate import ValidationError, validate

from orchestrator.cli.app import cli
from orchestrator.config.load import load
from streaming.pulse import PULSE, Pulse
from streaming.spark.runner import service
from tests.wheel import ROOT

FOLDER = ROOT / "conf" / "kubernetes"
SECRETS = "/run/secrets/tideover"

VERSIONS = ("1.32", "1.37")
"""Of Kubernetes: the one that the manifests were written for, and the newest whose schemas are here."""


def documents() -> list[dict[str, Any]]:
    """Copies, so that a test may change them."""
    return copy.deepcopy(parsed())


@cache
def parsed() -> list[dict[str, Any]]:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [each for name in listed for each in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))]


def workloads() -> list[dict[str, Any]]:
    return [each for each in documents() if "template" in each["spec"]]


def pods() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in (*workloads(), upgrade()["spec"]["jobTemplate"])]


def upgrade() -> dict[str, Any]:
    """What makes and upgrades the store."""
    (found,) = (each for each in documents() if each["kind"] == "CronJob")
    return found


def containers() -> list[dict[str, Any]]:
    return [container for each in workloads() for container in each["spec"]["template"]["spec"]["containers"]]


def verb_of(name: str) -> Any:
    verb = cli.get_command(click.Context(cli), name)
    assert verb is not None
    return verb


def rendered() -> list[dict[str, Any]]:
    """What ``kubectl apply -k`` would send; the test is skipped where there is no kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on the path")
    done = subprocess.run([kubectl, "kustomize", str(FOLDER)], check=True, capture_output=True, text=True, timeout=120)
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("document", documents(), ids=lambda each: each["kind"])
def test_a_manifest_is_one_that_kubernetes_takes(document: dict[str, Any], version: str) -> None:
    assert validate(document, version, strict=True) == version


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("replica",), 2, "'replica' was unexpected"),
        (("replicas",), "two", "'two' is not of type 'integer'"),
        (("template", "spec", "containers", 0, "readinessProbe", "period"), 60, "'period' was unexpected"),
        (("template", "spec", "volumes"), {}, "{} is not of type 'array'"),
    ],
)
def test_a_broken_field_of_a_manifest_is_found(path: tuple[str | int, ...], value: object, said: str) -> None:
    broken: Any = copy.deepcopy(workloads()[0])
    inner = broken["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(ValidationError, match=re.escape(said)):
        validate(broken, VERSIONS[0], strict=True)


def test_a_field_that_must_be_there_is_missed() -> None:
    broken = copy.deepcopy(workloads()[0])
    del broken["spec"]["selector"]
    with pytest.raises(ValidationError, match="'selector' is a required property"):
        validate(broken, VERSIONS[0], strict=True)


def test_the_rendered_kustomization_is_valid_with_image_and_config_replaced() -> None:
    objects = rendered()
    for each in objects:
        assert validate(each, VERSIONS[0], strict=True) == VERSIONS[0]
    (configuration,) = (each for each in objects if each["kind"] == "ConfigMap")
    assert re.fullmatch(r"tideover-[a-z0-9]{10}", configuration["metadata"]["name"])
    assert configuration["data"] == {"tideover.yaml": (FOLDER / "tideover.yaml").read_text(encoding="utf-8")}
    sent = [each["spec"]["template"]["spec"] for each in objects if "template" in each.get("spec", {})]
    images = [container["image"] for pod in sent for container in pod["containers"]]
    assert images == ["registry.example/tideover:0.1.0"] * len(workloads())
    named = [volume["configMap"]["name"] for pod in sent for volume in pod["volumes"] if "configMap" in volume]
    assert named == [configuration["metadata"]["name"]] * len(workloads())


def test_every_selector_finds_the_pods_that_it_is_for() -> None:
    labels = {each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"].items() for each in workloads()}
    for document in documents():
        if document["kind"] in {"CronJob", "NetworkPolicy"}:
            continue
        wanted = document["spec"]["selector"]
        wanted = wanted.get("matchLabels", wanted)
        assert labels[document["metadata"]["name"]] >= wanted.items(), document["kind"]


def test_a_policy_lets_nothing_reach_any_pod() -> None:
    (policy,) = (each["spec"] for each in documents() if each["kind"] == "NetworkPolicy")
    assert set(policy) == {"podSelector", "policyTypes"}, "a list of rules would let in what they name"
    assert policy["policyTypes"] == ["Ingress"]
    templates = [each["spec"]["template"] for each in (*workloads(), upgrade()["spec"]["jobTemplate"])]
    assert len(templates) == 3
    for template in templates:
        assert template["metadata"]["labels"].items() >= policy["podSelector"]["matchLabels"].items()


def test_every_mount_has_a_volume_and_every_volume_a_mount() -> None:
    for each in workloads():
        pod, claims = each["spec"]["template"]["spec"], each["spec"].get("volumeClaimTemplates", [])
        volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}
        assert {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]} == volumes


def test_there_are_two_controllers_and_one_of_each_runner() -> None:
    assert {each["kind"]: each["spec"]["replicas"] for each in workloads()} == {"Deployment": 2, "StatefulSet": 1}


def test_the_store_is_upgraded_by_a_verb_and_only_when_a_person_says_so() -> None:
    assert upgrade()["spec"]["suspend"] is True
    job = upgrade()["spec"]["jobTemplate"]["spec"]
    assert job["backoffLimit"] == 0
    (container,) = job["template"]["spec"]["containers"]
    assert container["command"][:3] == ["tideover", "-c", "/etc/tideover/tideover.yaml"]
    group, verb, *rest = container["command"][3:]
    command = verb_of(group).commands[verb]
    assert set(rest) <= {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("container", containers(), ids=lambda each: each["name"])
def test_commands_and_probes_are_verbs_with_options_that_they_have(container: dict[str, Any]) -> None:
    for command in (container["command"], container["readinessProbe"]["exec"]["command"]):
        assert command[:3] == ["tideover", "-c", "/etc/tideover/tideover.yaml"]
        known = {option for parameter in verb_of(command[3]).params for option in parameter.opts}
        assert {word for word in command[4:] if word.startswith("-")} <= known


@pytest.mark.parametrize("container", containers(), ids=lambda each: each["name"])
@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe"])
def test_a_hung_loop_fails_the_probe(container: dict[str, Any], probe: str, tmp_path: Path) -> None:
    pulse = tmp_path / "pulse"

    def passes() -> bool:
        command = container[probe]["exec"]["command"]
        return subprocess.run(command, env={**os.environ, PULSE: str(pulse)}, stderr=subprocess.DEVNULL).returncode == 0

    assert not passes(), "the loop has not begun"
    Pulse.of({PULSE: str(pulse)}).beat(0.0)
    assert passes()
    os.utime(pulse, (time.time() - 130,) * 2)
    assert not passes(), "the loop has not turned for 130 s"


def test_a_runner_is_found_by_its_name_while_it_is_not_ready() -> None:
    services = [each["spec"] for each in documents() if each["kind"] == "Service"]
    assert [each["publishNotReadyAddresses"] for each in services] == [True]


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


@pytest.mark.parametrize("name", ["Dockerfile", "conf/own-image/Dockerfile"])
def test_an_image_takes_its_base_by_a_dated_tag_and_by_digest(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE_IMAGE=debian:bookworm-\d{8}-slim$", text, re.MULTILINE)
    assert re.search(r"^ARG BASE_DIGEST=$", text, re.MULTILINE), "no digest that was not looked up"
    based = [line for line in text.splitlines() if line.startswith("FROM") and "BASE_IMAGE" in line]
    assert based
    assert all("${BASE_IMAGE}${BASE_DIGEST:+@$BASE_DIGEST}" in line for line in based)
