"""The alert rules fit what is exported and what the documents say."""

import re
from collections import Counter
from typing import Any

import pytest
import yaml

from orchestrator.http.exported import METRICS
from orchestrator.http.metrics import DURATION
from tests.contract.test_docs import ROOT, anchors_of

FOLDER = ROOT / "conf" / "prometheus"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
TRIED: list[dict[str, Any]] = yaml.safe_load((FOLDER / "alerts.test.yaml").read_text(encoding="utf-8"))["tests"]
PAGE = ROOT / "docs" / "alerts.md"
LABELS = {each.name: set(each.labels) for each in METRICS} | {DURATION: {"kind", "result"}}
BY_PROMETHEUS = {"job", "instance"}
ALERTS = [
    "NoLeader", "ClusterDown", "OperationBlocked", "OperationStuck", "ReplicationStalled", "ExposureOverBudget",
    "NotReady", "DrillOverdue", "StaleEpochSeen", "StoreUnreachable", "ConfigError", "TrackingBehind",
]  # fmt: skip


def names_in(expression: str) -> set[str]:
    """The names of metrics in an expression."""
    return set(re.findall(r"\btideover_\w+", expression))


def test_the_twelve_alerts_are_there_and_no_other() -> None:
    assert [rule["alert"] for rule in RULES] == ALERTS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_says_how_grave_it_is_for_how_long_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert re.fullmatch(r"\d+[smh]", rule["for"])
    assert rule["annotations"]["summary"]
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert anchor in anchors_of(ROOT / page)
    assert anchor == rule["alert"].lower()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_every_metric_of_a_rule_is_exported_with_the_labels_it_names(rule: dict[str, Any]) -> None:
    text = f"{rule['expr']} {rule['annotations']['summary']}"
    assert names_in(text)
    assert names_in(text) <= LABELS.keys()
    for name, matchers in re.findall(r"\b(tideover_\w+)\{([^}]*)\}", text):
        assert set(re.findall(r"(\w+)!?=", matchers)) <= LABELS[name]
    known = set().union(*(LABELS[name] for name in names_in(text)), BY_PROMETHEUS)
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", text)
    assert grouped or rule["alert"] == "NoLeader"
    assert {label for group in grouped for label in re.split(r",\s*", group)} <= known


def test_every_alert_is_tried_as_one_that_fires_and_as_one_that_does_not() -> None:
    fires, silent = Counter[str](), Counter[str]()
    for each in TRIED:
        for case in each.get("alert_rule_test", []):
            (fires if case["exp_alerts"] else silent)[case["alertname"]] += 1
    assert set(fires) == set(ALERTS)
    assert set(silent) == set(ALERTS)


def test_every_series_of_the_trials_is_one_that_is_exported() -> None:
    series = [given["series"] for each in TRIED for given in each["input_series"]]
    for text in series:
        name, _, labels = text.rstrip("}").partition("{")
        assert set(re.findall(r"(\w+)=", labels)) - BY_PROMETHEUS == LABELS[name], text


def test_the_page_has_each_alert_with_its_severity_and_no_other() -> None:
    text = PAGE.read_text(encoding="utf-8")
    said = re.findall(r"^## (\w+)\n\n(critical|warning)\b", text, re.MULTILINE)
    assert said == [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]
