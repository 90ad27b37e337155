"""The README's first steps work: its configuration loads, its pipeline is the one that this names, and it is short."""

import re
from pathlib import Path

import pytest

from orchestrator.config.load import load
from state.settings.keys import Tideover
from streaming.spark.query.pipeline import load_pipeline, takes_settings
from tests.contract.test_docs import ROOT
from tests.contract.test_requirements import PROJECT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert isinstance(found, str)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Tideover:
    path = tmp_path / "tideover.yaml"
    path.write_text(block("yaml"), encoding="utf-8")
    return load(path).settings


def test_the_readmes_configuration_and_pipeline_load_together(
    settings: Tideover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (query,) = settings.queries.values()
    module, _, function = query.pipeline.partition(":")
    (tmp_path / f"{module}.py").write_text(block("python"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    pipeline = load_pipeline(query.pipeline)
    assert pipeline.__name__ == function
    assert takes_settings(pipeline)


def test_the_readmes_pipeline_reads_only_what_its_configuration_has(settings: Tideover) -> None:
    (query,) = settings.queries.values()
    assert set(re.findall(r'settings\["(\w+)"\]', block("python"))) == query.settings.keys()
    assert set(re.findall(r'sources\["(\w+)"\]', block("python"))) == query.sources.keys()


def test_the_readme_is_short_and_names_the_version_and_supported_sparks() -> None:
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 10
    assert f"tideover-{PROJECT['version']}-py3-none-any.whl" in README
    locks = {path.stem.removeprefix("pyspark-") for path in (ROOT / "conf" / "locks").glob("pyspark-*.lock")}
    (said,) = re.findall(r"Spark \(PySpark\) ([\d., ]+\d)", README)
    assert set(said.split(", ")) == locks
