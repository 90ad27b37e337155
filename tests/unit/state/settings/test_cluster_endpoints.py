"""An endpoint is one cluster for each of its names; what is wrong with one has the path that the file has."""

from typing import Any

import pytest
from pydantic import ValidationError

from state.settings.cluster_endpoints import expanded, in_file, mistakes
from state.settings.key_rules import contradictions
from state.settings.keys import Tideover
from tests.contract.samples import EAST_ID, OTHER_ID

DR = {"bootstrap": ["dr:9092"], "ids": {"east": EAST_ID, "west": OTHER_ID}}


def settings(clusters: dict[str, Any]) -> Tideover:
    return Tideover.model_validate({"store": "sqlite://", "clusters": clusters})


def test_an_endpoint_is_a_cluster_for_each_of_its_names() -> None:
    known = settings({"dr": DR, "north": {"bootstrap": ["n:9092"]}})
    assert list(known.clusters) == ["east", "west", "north"]
    east = known.clusters["east"]
    assert (east.bootstrap, east.id, east.ids, east.endpoint) == (("dr:9092",), EAST_ID, None, "dr")
    assert known.behind_endpoint("east") == {OTHER_ID: "west"}
    assert known.behind_endpoint("north") == {}
    assert Tideover.model_validate(known.model_dump(by_alias=True)).clusters == known.clusters


def test_clusters_outside_an_endpoint_share_no_server_with_it() -> None:
    with pytest.raises(ValidationError, match=r"clusters\.north\.bootstrap: dr:9092 is already a server of"):
        settings({"dr": DR, "north": {"bootstrap": ["dr:9092"]}})
    with pytest.raises(ValidationError, match="a cluster behind an endpoint needs its id"):
        settings({"east": {"bootstrap": ["dr:9092"], "endpoint": "dr"}})


@pytest.mark.parametrize(
    ("clusters", "text"),
    [
        ({"dr": {**DR, "ids": {"east": EAST_ID}}}, "clusters.dr.ids: name two clusters or more"),
        ({"dr": {**DR, "id": EAST_ID}}, "clusters.dr.ids: an endpoint has the ids of its clusters: remove id"),
        ({"dr": DR, "east": {"bootstrap": ["e:1"]}}, "clusters.dr.ids: 'east': already declared"),
        ({"dr": DR, "d2": {**DR, "bootstrap": ["d2:1"]}}, "clusters.dr.ids: 'east' and 'west': already declared"),
        ({"dr": {**DR, "ids": {"east": EAST_ID, "west": EAST_ID}}}, "clusters.dr.ids.west: it is already that of"),
    ],
)
def test_a_mistaken_endpoint_is_named_as_the_file_has_it(clusters: dict[str, Any], text: str) -> None:
    found = list(contradictions({"clusters": clusters}))
    assert any(each.startswith(text) for each in found), found
    with pytest.raises(ValidationError):
        settings(clusters)


def test_ids_that_are_no_group_are_left_to_the_check_of_the_key() -> None:
    clusters = {"dr": {**DR, "ids": "east"}}
    assert (expanded(clusters), list(mistakes(clusters))) == (clusters, [])
    with pytest.raises(ValidationError, match=r"clusters\.dr\.ids"):
        settings(clusters)


def test_a_path_leads_to_the_entry_in_the_file() -> None:
    clusters = expanded({"dr": DR, "north": {"bootstrap": []}})
    assert in_file("clusters.east.bootstrap.0: is no address", clusters) == "clusters.dr.bootstrap.0: is no address"
    assert in_file("clusters.east.id: has no form", clusters) == "clusters.dr.ids.east: has no form"
    for reported in (
        "clusters.north.bootstrap: is required",
        "routes.0: is wrong",
        "clusters: must be a group of keys",
    ):
        assert in_file(reported, clusters) == reported
