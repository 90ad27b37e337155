"""Prometheus itself reads our rules and settings."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.contract.test_board import queries
from tests.prometheus_tools import ROOT, prometheus_tool

pytestmark = pytest.mark.real
FOLDER = ROOT / "conf" / "prometheus"


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [prometheus_tool("promtool"), *map(str, words)], capture_output=True, text=True, timeout=300, check=False
    )


def test_the_alert_rules_are_ones_that_prometheus_takes() -> None:
    done = promtool("check", "rules", FOLDER / "alerts.yaml")
    assert done.returncode == 0, done.stderr
    assert "12 rules found" in done.stdout


def test_each_alert_fires_when_it_should_and_none_on_a_calm_day() -> None:
    done = promtool("test", "rules", FOLDER / "alerts.test.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_that_fires_late_would_be_noticed(tmp_path: Path) -> None:
    for file in FOLDER.glob("alerts*.yaml"):
        text = file.read_text(encoding="utf-8")
        (tmp_path / file.name).write_text(text.replace("for: 15s", "for: 45s"), encoding="utf-8")
    done = promtool("test", "rules", tmp_path / "alerts.test.yaml")
    assert done.returncode != 0
    assert "alertname: ClusterDown" in done.stdout + done.stderr


def test_the_settings_that_the_page_shows_are_ones_that_prometheus_takes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    token = tmp_path / "token"
    token.write_text("x", encoding="utf-8")
    settings = tmp_path / "prometheus.yml"
    settings.write_text(shown.replace("/etc/prometheus/tideover.token", str(token)), encoding="utf-8")
    assert (done := promtool("check", "config", settings)).returncode == 0, done.stderr


def test_every_query_of_the_board_is_one_that_prometheus_reads(tmp_path: Path) -> None:
    exprs = [
        query.replace("$job", "t").replace("$query", ".*") for query, _ in queries() if "label_values" not in query
    ]
    rules = [{"record": f"q:{index}", "expr": expr} for index, expr in enumerate(exprs)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}), encoding="utf-8")
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stderr
    assert f"{len(exprs)} rules found" in done.stdout


def test_the_settings_of_compose_are_ones_that_prometheus_takes(tmp_path: Path) -> None:
    text = (ROOT / "conf" / "compose" / "prometheus.yml").read_text(encoding="utf-8")
    settings = tmp_path / "prometheus.yml"
    settings.write_text(text.replace("/etc/prometheus/rules", str(FOLDER)), encoding="utf-8")
    done = promtool("check", "config", settings)
    assert done.returncode == 0, done.stderr
    assert "12 rules found" in done.stdout
