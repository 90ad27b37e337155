"""Prometheus itself reads our rules and settings."""

import subprocess
from pathlib import Path

import pytest

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
