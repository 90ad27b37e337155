"""Grafana's board queries only what is exported, and compose has it and Prometheus as files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.test_alerts import BY_PROMETHEUS, LABELS
from tests.contract.test_docs import ROOT, anchors_of

BOARD: dict[str, Any] = json.loads((ROOT / "conf" / "grafana" / "tideover.json").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
PARTS = {"bucket", "count", "sum"}
"""What Prometheus makes of a histogram."""


def queries() -> Iterator[tuple[str, str]]:
    """Each expression of the board with what its legend says."""
    for panel in BOARD["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"], target["legendFormat"]
    for each in BOARD["templating"]["list"]:
        if each["type"] == "query":
            yield each["query"], ""


def exported(name: str) -> set[str]:
    """The labels of a series; no name of ours is a ``KeyError``."""
    stem, _, part = name.rpartition("_")
    return LABELS[stem] | {"le"} if part in PARTS and stem in LABELS else LABELS[name]


@pytest.mark.parametrize(("query", "legend"), list(queries()))
def test_every_query_of_the_board_uses_an_exported_metric(query: str, legend: str) -> None:
    names = re.findall(r"\btideover_\w+", query)
    assert names
    known = set().union(*(exported(name) for name in names), BY_PROMETHEUS)
    for name, matchers in re.findall(r"\b(tideover_\w+)\{([^}]*)\}", query):
        assert set(re.findall(r"(\w+)[!=]?[=~]", matchers)) <= exported(name) | BY_PROMETHEUS
    grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", query) for label in re.split(r",\s*", group)}
    assert grouped <= known
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= (grouped or known)


def test_every_query_leaves_other_installations_out() -> None:
    free = [query for query, _ in queries() if 'job="$job"' not in query]
    assert free == ["label_values(tideover_build_info, job)"]


def test_clusters_and_queries_are_never_summed_over_controllers() -> None:
    for query, _ in queries():
        for name in re.findall(r"(?<!max by \(\w{5}\) \()\bsum\((tideover_\w+)", query):
            assert name == "tideover_leader"


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in BOARD["panels"]
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


def test_a_page_that_a_panel_names_has_that_chapter() -> None:
    named = [
        found
        for panel in BOARD["panels"]
        for found in re.findall(r"(docs/\w+\.md)#([\w-]+)", panel.get("description", ""))
    ]
    assert len(named) > 5
    assert [(page, anchor) for page, anchor in named if anchor not in anchors_of(ROOT / page)] == []


def test_compose_mounts_rules_and_board_and_sends_a_token_that_is_taken() -> None:
    mounted = [volume for name in ("prometheus", "grafana") for volume in SERVICES[name]["volumes"] if volume[0] == "."]
    assert all(Path(ROOT / volume.split(":")[0]).exists() for volume in mounted)
    assert {"./conf/prometheus/alerts.yaml", "./conf/grafana/tideover.json"} <= {each.split(":")[0] for each in mounted}
    settings = yaml.safe_load((ROOT / "conf/compose/prometheus.yml").read_text(encoding="utf-8"))
    (scraped,) = settings["scrape_configs"]
    (tokens,) = [yaml.safe_load((ROOT / "conf/compose/tideover.yaml").read_text("utf-8"))["http"]["tokens"]]
    assert tokens == [{"name": "dashboard", "role": "viewer", "token": "env:TIDEOVER_VIEWER"}]
    for name in ("controller-one", "controller-two"):
        assert SERVICES[name]["environment"]["TIDEOVER_VIEWER"] == scraped["authorization"]["credentials"]
        assert f"{name}:8340" in scraped["static_configs"][0]["targets"]
    inside = [volume.split(":")[1] for volume in SERVICES["prometheus"]["volumes"]]
    assert settings["rule_files"][0] in inside


def test_grafana_finds_its_board_and_its_source_where_compose_puts_them() -> None:
    folder = ROOT / "conf" / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((folder / "dashboards" / "tideover.yaml").read_text("utf-8"))["providers"]
    assert (
        f"./conf/grafana/tideover.json:{provider['options']['path']}/tideover.json:ro" in SERVICES["grafana"]["volumes"]
    )
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text("utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"]


def test_ports_of_compose_are_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
