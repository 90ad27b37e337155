"""What the packages import is what an installation brings: of the product without extras, of the lab with its own."""

import re
import sys
import tomllib

import pytest

from streaming.jars import set_names
from tests.contract.test_imports import ROOT, imported

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OURS = ("orchestrator", "streaming", "state", "lab", "examples")

# Where a module is called otherwise than its distribution, or comes with another one that pins it.
DISTRIBUTION = {
    "confluent_kafka": "confluent-kafka",
    "kafka": "kafka-python",
    "prometheus_client": "prometheus-client",
    "py4j": "pyspark",
    "pydantic_core": "pydantic",
    "snappy": "python-snappy",
    "yaml": "PyYAML",
}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", each, maxsplit=1)[0].lower() for each in requirements}


@pytest.mark.parametrize("package", OURS)
def test_what_a_package_imports_is_installed_with_it(package: str) -> None:
    brought = names(PROJECT["dependencies"])
    if package == "lab":
        brought |= names(PROJECT["optional-dependencies"]["lab"])
    modules = {name.partition(".")[0] for path in (ROOT / package).rglob("*.py") for name in imported(path)}
    foreign = modules - set(OURS) - sys.stdlib_module_names
    assert {DISTRIBUTION.get(name, name).lower() for name in foreign} - brought == set()


def test_the_image_of_the_lab_has_what_the_lab_needs() -> None:
    lock = (ROOT / "conf/locks/image-lab.lock").read_text(encoding="utf-8")
    assert names(PROJECT["optional-dependencies"]["lab"]) == set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE))


def test_an_installation_brings_no_spark_newer_than_the_connectors_jars_that_are_locked() -> None:
    (pyspark,) = (each for each in PROJECT["dependencies"] if each.startswith("pyspark"))
    newest = re.search(r"<=([\d.]+)$", pyspark)
    assert newest is not None, "a bound below a version that is not there yet lets in what nobody ran"
    assert f"spark-{newest[1]}" in set_names()
