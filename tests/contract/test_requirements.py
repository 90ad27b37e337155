"""What the packages import is what an installation brings: of the product without extras, of the lab with its own."""

import re
import sys
import tomllib

import pytest
from packaging.specifiers import SpecifierSet

from streaming.jars import parse_lock, set_names
from streaming.spark.query.session import nearest_set
from tests.contract.test_imports import ROOT, imported

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
OURS = ("orchestrator", "streaming", "state", "replication_tool", "lab", "examples")
WORKBENCH = ("tests", "bench", "chaos", "reports")
NEIGHBOURS = {"setup"}
"""The module that makes the page of the package."""

PUBLISHED = [
    "3.3.4", "3.4.3", "3.4.4", "3.5.0", "3.5.1", "3.5.6", "3.5.7", "3.5.8", "3.5.9", "4.0.0", "4.0.1", "4.0.2",
    "4.0.3", "4.0.4", "4.0.5", "4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.1.4", "4.2.0", "4.2.1", "4.3.0",
]  # fmt: skip
"""Versions of pyspark on its index in November 2026, around those that are admitted."""

# Where a module is called otherwise than its distribution, or comes with another one that pins it.
DISTRIBUTION = {
    "aws_msk_iam_sasl_signer": "aws-msk-iam-sasl-signer-python",
    "confluent_kafka": "confluent-kafka",
    "kafka": "kafka-python",
    "kubernetes_validate": "kubernetes-validate",
    "markdown_it": "markdown-it-py",
    "opentelemetry": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "py4j": "pyspark",
    "pydantic_core": "pydantic",
    "yaml": "PyYAML",
}


TOOLS = {
    "build", "import-linter", "mypy", "pytest-randomly", "pytest-timeout", "pytest-xdist", "ruff", "setuptools",
    "types-pyyaml",
}  # fmt: skip
"""Of the extra ``dev``: what the Makefile or a tool runs, and no test imports."""


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", each, maxsplit=1)[0].lower() for each in requirements}


def distributions(*packages: str) -> set[str]:
    """What the packages import that is neither ours nor Python's, each by the name that is installed."""
    modules = {
        name.partition(".")[0] for each in packages for path in (ROOT / each).rglob("*.py") for name in imported(path)
    }
    foreign = modules - {*OURS, *WORKBENCH} - sys.stdlib_module_names - NEIGHBOURS
    return {DISTRIBUTION.get(name, name).lower() for name in foreign}


@pytest.mark.parametrize("package", OURS)
def test_every_import_of_a_package_is_among_its_requirements(package: str) -> None:
    brought = names(PROJECT["dependencies"])
    if package == "orchestrator":
        brought |= names(PROJECT["optional-dependencies"]["notify"] + PROJECT["optional-dependencies"]["otel"])
    if package == "streaming":
        brought |= names(PROJECT["optional-dependencies"]["iam"])
    if package == "replication_tool":
        brought |= names(PROJECT["optional-dependencies"]["replication"])
    if package == "lab":
        brought |= names(PROJECT["optional-dependencies"]["lab"])
    assert distributions(package) - brought == set()


def test_every_requirement_is_imported() -> None:
    assert names(PROJECT["dependencies"]) - distributions(*OURS) == set()


def test_the_dev_extra_brings_the_imports_of_tests_and_reports_and_the_tools() -> None:
    extra, product = names(PROJECT["optional-dependencies"]["dev"]), names(PROJECT["dependencies"])
    used = distributions(*WORKBENCH)
    assert used - product - extra == set()
    extras = PROJECT["optional-dependencies"]["notify"] + PROJECT["optional-dependencies"]["otel"]
    assert extra - used - names(extras) == TOOLS


def test_kafkas_codecs_come_with_the_client_that_reads_them() -> None:
    (client,) = (each for each in PROJECT["dependencies"] if each.startswith("kafka-python"))
    assert set(re.findall(r"\w+", client.partition("[")[2].partition("]")[0])) == {"lz4", "snappy", "zstd"}


def test_the_metadata_names_no_host_and_no_python_that_is_not_tested() -> None:
    assert "urls" not in PROJECT, "the project has no address yet"
    assert all("@" not in author.get("email", "") for author in PROJECT["authors"])
    tested = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.", each)]
    assert PROJECT["requires-python"] == f">={tested[0]}"
    assert tested == [PYPROJECT["tool"]["mypy"]["python_version"]]


def test_the_image_of_the_lab_has_what_the_lab_needs() -> None:
    lock = (ROOT / "conf/locks/image-lab.lock").read_text(encoding="utf-8")
    assert names(PROJECT["optional-dependencies"]["lab"]) == set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE))


def test_an_installation_brings_only_a_spark_whose_connector_jars_are_locked() -> None:
    """For its minor version; the newest that is admitted is one that was tested as it is."""
    (pyspark,) = (each for each in PROJECT["dependencies"] if each.startswith("pyspark"))
    admitted = list(SpecifierSet(pyspark.removeprefix("pyspark")).filter(PUBLISHED))
    assert {nearest_set("spark", each) for each in admitted} == {
        each for each in set_names() if each.startswith("spark-")
    }
    assert f"spark-{admitted[-1]}" in set_names()


def test_the_licence_and_who_wrote_it_are_declared() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    for name in PROJECT["license-files"]:
        assert (ROOT / name).is_file(), name
    assert PROJECT["authors"] == [{"name": "Tideover contributors"}]


def test_the_notice_names_every_project_whose_jars_an_image_holds() -> None:
    project = {
        "spark": "Apache Spark",
        "kafka": "Apache Kafka",
        "commons": "Commons Pool",
        "globalmentor": "GlobalMentor",
    }
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for name in set_names():
        if name.startswith("spark-"):
            for jar in parse_lock((ROOT / "streaming/jarsets" / f"{name}.lock").read_text(encoding="utf-8")):
                found = [named for key, named in project.items() if key in jar.coordinate.group]
                assert found, f"NOTICE says nothing of {jar.coordinate}"
                assert found[0] in notice


def test_every_package_that_says_it_is_typed_has_the_marker() -> None:
    data = PYPROJECT["tool"]["setuptools"]["package-data"]
    typed = {package for package, files in data.items() if "py.typed" in files}
    assert typed == {"orchestrator", "streaming", "state"}
    assert {package for package in OURS if (ROOT / package / "py.typed").is_file()} == typed
