"""The README is true: its first steps work, each figure is one of a report, and it is short.

The page of the package and of the site is made of it, so what holds here holds there.
"""

import re
from pathlib import Path

import pytest
import yaml

from orchestrator.config.load import load
from setup import index_page, steps
from state.settings.keys import Tideover
from streaming.spark.query.pipeline import load_pipeline, takes_settings
from tests.contract.test_docs import ROOT
from tests.contract.test_requirements import PROJECT

README = (ROOT / "README.md").read_text(encoding="utf-8")
RECORDING = ROOT / "docs" / "images" / "demo.svg"
FIGURES = {
    "Lost and repeated records": ("switches", 30, r"^\| (?:kill|freeze) \|.*\| 0 \| 0 \|.*\| kept \|$"),
    "Decision to the first batch": (
        "bench",
        1,
        r"^\| switch, warm runner: decision to first committed batch \| .*? \| {} \(",
    ),
    "The same with a new driver": ("bench", 1, r"^\| switch, warm runner: decision .* state lost \| {} \("),
    "Kill of the cluster to the verdict": ("bench-watch", 1, r"^\| kill of the primary to DOWN \| .*? \| {} \("),
    "Kill to the first batch": ("automatic", 1, r"Fault to first commit: median {} s"),
    "Pause of a planned move": ("bench-state", 1, r"^\| pause by switch, 5 GB in RocksDB \| .*? \| {} \("),
}
"""By the begin of a row: the report that has its figure, in how many lines, and how such a line reads."""


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
    assert query.pipeline is not None
    module, _, function = query.pipeline.partition(":")
    (tmp_path / f"{module}.py").write_text(block("python"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    pipeline = load_pipeline(query.pipeline)
    assert pipeline.__name__ == function
    assert takes_settings(pipeline)


def test_the_readmes_pipeline_reads_only_what_its_configuration_has(settings: Tideover) -> None:
    (query,) = settings.queries.values()
    assert query.pipeline is not None
    assert set(re.findall(r'settings\["(\w+)"\]', block("python"))) == query.settings.keys()
    assert set(re.findall(r'sources\["(\w+)"\]', block("python"))) == query.sources.keys()


def test_the_readme_is_short_and_names_the_version_and_supported_sparks() -> None:
    assert len(README.split()) <= 900
    for language in ("yaml", "python"):
        assert len([line for line in block(language).splitlines() if line.strip()]) <= 10
    assert f"tideover-{PROJECT['version']}-py3-none-any.whl" in README
    locks = {path.stem.removeprefix("pyspark-") for path in (ROOT / "conf" / "locks").glob("pyspark-*.lock")}
    (said,) = re.findall(r"Spark \(PySpark\) ([\d., ]+\d)", README)
    assert set(said.split(", ")) == locks


def figures() -> dict[str, str]:
    """The rows of the table of figures."""
    (table,) = re.findall(r"^\| \| Figure \|\n\|---\|---\|\n((?:\|.*\n)+)", README, re.MULTILINE)
    return dict(re.findall(r"^\| (.+) \| (.+) \|$", table, re.MULTILINE))


def test_each_figure_of_the_readme_is_the_one_of_its_report() -> None:
    assert len(figures()) == len(FIGURES) <= 6
    for (begin, (report, lines, reads)), (row, figure) in zip(FIGURES.items(), figures().items(), strict=True):
        assert row.startswith(begin)
        page = (ROOT / "docs" / "reports" / f"{report}.md").read_text(encoding="utf-8")
        found = re.findall(reads.format(re.escape(figure.removesuffix(" s"))), page, re.MULTILINE)
        assert len(found) == lines, (row, figure)


def test_the_badge_is_of_a_workflow_that_runs_the_two_commands_of_the_readme() -> None:
    (badge,) = set(re.findall(r"actions/workflows/([\w.]+)", README))
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / badge).read_text(encoding="utf-8"))["jobs"]
    commands = {step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}
    assert commands == {"make demo", "make test"}
    assert all(f"`{command}`" in README or f"\n{command} " in README for command in commands)


def test_continuous_integration_runs_every_test_that_is_not_long() -> None:
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == "exec make test-all"
    nightly = yaml.safe_load((ROOT / ".github" / "workflows" / "all.yml").read_text(encoding="utf-8"))["jobs"]
    assert [step["run"] for job in nightly.values() for step in job["steps"] if "run" in step] == ["make test-all"]
    recipes = dict(
        re.findall(r"^([\w-]+):.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert "real beside" in recipes["test-all"]
    assert "core beside" in recipes["test"]
    assert '-m "real and not long"' in recipes["real"]
    assert '-m "core and not long" tests/real' in recipes["core"]


def test_the_readme_links_to_the_reports_once() -> None:
    assert README.count("docs/reports/") == 1


def test_the_recording_is_small_and_ends_with_the_verdict_of_a_whole_demo() -> None:
    assert "](docs/images/demo.svg)" in README
    drawn = RECORDING.read_text(encoding="utf-8")
    assert len(drawn) < 20_000
    (verdict,) = re.findall(r"verdict: (.*)</text>", drawn)
    assert verdict.startswith("lost 0, repeated 0 in 3 ")
    assert "log in with" not in drawn


def test_the_page_of_the_package_is_the_readme_without_links_into_the_repo() -> None:
    page = index_page(README)
    assert re.findall(r"\]\((?!https?:)", page) == []
    assert "```mermaid" not in page
    (diagram,) = re.findall(r"^```mermaid\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    messages = [line for line in diagram.splitlines() if ">>" in line]
    assert len(messages) == len(steps(diagram).splitlines()) > 3
    assert steps(diagram) in page
    assert block("yaml") in page


def test_the_declared_readme_is_made_by_the_setup_file_and_nowhere_else() -> None:
    assert PROJECT["dynamic"] == ["readme"]
    assert "readme" not in PROJECT
    assert "!setup.py" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
