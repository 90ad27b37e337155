"""The compose file: fixed images, limits that fit the machine, and nothing more allowed than is needed."""

import os
import re
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.config.load import load
from orchestrator.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
SECURED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.secured.yml").read_text("utf-8"))[
    "services"
]
OURS = [name for name, service in SERVICES.items() if "TIDEOVER" in service["image"]]
UNITS = {"m": 1, "g": 1024}


def test_every_image_has_a_variable_and_a_tag_that_stays() -> None:
    named = [service["image"] for service in SERVICES.values()]
    named += re.findall(r"BASE_IMAGE: (\S+)", TEXT)
    named += ["${BASE_IMAGE:-" + found + "}" for found in re.findall(r"ARG BASE_IMAGE=(\S+)", dockerfile())]
    for image in named:
        default = re.fullmatch(r"\$\{[A-Z_]+:-([^}]+)\}", image)
        assert default, image
        assert re.search(r":[^:/]*\d+\.\d|:[^:/]*\d{8}", default[1]), f"{image} has no version"
        assert "latest" not in image


def test_the_image_is_built_from_every_package_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    let_in = set((ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines())
    assert [name for name in packages if "!" + name.rstrip("*") not in let_in] == []


def test_all_services_together_fit_a_machine_of_24_gibibytes() -> None:
    limits: dict[str, Any] = {name: service.get("mem_limit") for name, service in SERVICES.items()}
    assert None not in limits.values(), limits
    assert sum(int(limit[:-1]) * UNITS[limit[-1]] for limit in limits.values()) < 20 * 1024


def test_no_service_takes_more_of_the_machine_than_it_is_given() -> None:
    alone = {name: service for name, service in SECURED.items() if name not in SERVICES}
    for name, service in (SERVICES | alone).items():
        assert "mem_limit" in service, name
        assert 0 < float(service.get("cpus", 0)) <= 2, f"{name} may take every core"


def test_services_are_healthy_while_their_loop_turns_and_restart_on_failure() -> None:
    for name in ("controller-one", "controller-two", "runner-a", "runner-b"):
        assert "test" not in SERVICES[name]["healthcheck"], "the image's own is asked"
        assert SERVICES[name]["restart"] == "on-failure"
    runtime, lab = dockerfile().split("\nFROM ")[2:4]
    assert "HEALTHCHECK" in runtime
    assert "HEALTHCHECK NONE" in lab, "tools have no loop"
    assert re.search(r"ENV[^#]*TIDEOVER_PULSE=/tmp/", runtime, re.DOTALL), "the root is read-only, /tmp is not"


def test_the_image_is_unhealthy_when_its_loop_hangs(tmp_path: Path) -> None:
    found = re.search(r"^HEALTHCHECK .*\\\n  CMD (.*)$", dockerfile(), re.MULTILINE)
    assert found
    pulse = tmp_path / "pulse"

    def is_healthy() -> bool:
        surroundings = {**os.environ, "TIDEOVER_PULSE": str(pulse)}
        return subprocess.run(["sh", "-c", found[1]], env=surroundings, check=False).returncode == 0

    assert not is_healthy(), "the loop has not begun"
    pulse.touch()
    assert is_healthy()
    os.utime(pulse, (time.time() - 130,) * 2)
    assert not is_healthy(), "the loop has not turned for 130 s"


def test_the_image_names_the_commit_that_it_was_built_from() -> None:
    assert 'org.opencontainers.image.revision="${REVISION}"' in dockerfile()


@pytest.mark.parametrize("name", OURS)
def test_our_services_have_a_read_only_root_and_no_privilege(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "user" not in service


def test_our_image_runs_without_rights_and_has_nothing_of_the_build() -> None:
    stages = dockerfile().split("\nFROM ")[1:]
    assert [stage.splitlines()[0].rpartition(" ")[2] for stage in stages] == ["build", "runtime", "lab", "runtime"]
    removed = re.search(r"/opt/tideover/bin/pip uninstall (.*)$", stages[0], re.MULTILINE)
    assert removed, "what a virtual environment begins with stays"
    assert {"pip", "setuptools"} <= set(removed[1].split())
    for stage in stages[1:3]:
        assert re.findall(r"^USER (\S+)$", stage, re.MULTILINE)[-1] == "10001:10001"
        assert not re.search(r"^(COPY|ADD) (?!--from=build )", stage, re.MULTILINE), "only what the build stage made"
        assert "pip" not in stage.replace("pipeline", "")


def test_the_compose_configuration_is_valid_and_knows_its_brokers() -> None:
    environment = SERVICES["runner-a"]["environment"]
    url = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", environment["TIDEOVER_STORE"])
    settings = load(ROOT / "conf/compose/tideover.yaml", {**environment, "TIDEOVER_STORE": url}).settings
    brokers = [name for name in SERVICES if re.fullmatch(r"(east|west)-\d", name)]
    known = [address for cluster in settings.clusters.values() for address in cluster.bootstrap]
    assert known == [f"{broker}:9092" for broker in brokers]
    assert {f"runner-{name}" for name in settings.runners} <= set(SERVICES)


def test_the_secured_variant_secures_every_part_that_talks_to_a_cluster() -> None:
    assert set(SECURED) - set(SERVICES) == {"secrets"}
    configured = {
        name
        for name, each in SERVICES.items()
        if any("tideover.yaml" in str(reported) for reported in each.get("volumes", ()))
    }
    configured.remove("store")  # it talks to no cluster
    kafka = {name for name, each in SERVICES.items() if "KAFKA_IMAGE" in each["image"]}
    assert set(SECURED) == {"secrets"} | configured | kafka
    for name in configured | kafka:
        assert "secrets:/var/lib/lab/secrets:ro" in SECURED[name]["volumes"]
    for name in configured:
        assert "./conf/compose/secured.yaml:/etc/tideover/tideover.yaml:ro" in SECURED[name]["volumes"]
    for name in kafka - {"replicator", "replicator-home"}:
        assert SECURED[name]["environment"] == {"SECRETS": f"/var/lib/lab/secrets/{name.partition('-')[0]}"}
        assert "secrets" in SECURED[name]["depends_on"]


def test_a_reversed_replicator_copies_as_the_other_one_did() -> None:
    there = settings_of("mm2.properties")
    home = there | settings_of("mm2-home.properties")
    assert (home["east->west.enabled"], home["west->east.enabled"]) == ("false", "true")
    assert home["west.consumer.isolation.level"] == there["east.consumer.isolation.level"]
    sent = {key: value for key, value in there.items() if key.startswith("east->west.")}
    for key, value in sent.items():
        assert home[key.replace("east->west", "west->east")] == ("true" if key.endswith("enabled") else value), key
    made = {
        key: home[f"west->east.{key}"] for key in there if key.endswith("topic.replication.factor") and ">" not in key
    }
    assert set(made.values()) == {home["west->east.replication.factor"]} == {"3"}, "they outlive a broker of east"


def test_the_secured_configuration_only_adds_credentials_by_reference() -> None:
    plain, secured = (
        yaml.safe_load((ROOT / "conf/compose" / name).read_text("utf-8")) for name in ("tideover.yaml", "secured.yaml")
    )
    security = {name: cluster.pop("security") for name, cluster in secured["clusters"].items()}
    assert secured == plain
    assert (security["east"]["protocol"], security["west"]["protocol"]) == ("SSL", "SASL_SSL")
    assert security["west"]["sasl"]["password"] == "file:/var/lib/lab/secrets/west/tideover.password"
    with pytest.raises(ConfigError) as refused:  # the files are in a volume; nothing else is wrong
        load(
            ROOT / "conf/compose/secured.yaml",
            {"TIDEOVER_STORE": "sqlite:///x.db", "TIDEOVER_VIEWER": "0123456789" * 2},
        )
    assert len(refused.value.mistakes) == 5
    assert all("/var/lib/lab/secrets/" in each and "is not a file" in each for each in refused.value.mistakes)


def settings_of(name: str) -> dict[str, str]:
    lines = (ROOT / "conf/compose/kafka" / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text(encoding="utf-8")
