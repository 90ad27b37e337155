"""What is written in several ways and is one thing has one form; what is the same twice is one mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orchestrator.decide.reconcile import held_by
from state.settings.canonical import (
    canonical_path,
    canonical_server,
    copied_as,
    of_checkpoints,
    of_query,
    of_route,
    of_servers,
    of_way_back,
    renaming,
)
from state.settings.keys import Cluster
from state.store.write_checks import left_by
from tests.contract import samples

SAME = [
    ("/data/cp", "/data/cp/", "/data//cp", "/data/./cp", "/data/x/../cp", "//data/cp", "file:/data/cp",
     "file:///data/cp", "FILE:///data/cp/", "file://localhost/../data/cp"),
    ("s3a://Bucket/cp", "s3://bucket/cp", "s3n://BUCKET//cp/", "S3A://bucket/x/../cp"),
    ("abfs://c@a.dfs.core.windows.net/cp", "abfss://C@a.dfs.core.windows.net//cp/"),
    ("hdfs://names/cp", "hdfs://NAMES:8020/cp/", "HDFS://names//cp"),
]  # fmt: skip


@pytest.mark.parametrize("spellings", SAME)
def test_every_spelling_of_a_folder_has_one_form(spellings: tuple[str, ...]) -> None:
    assert len({canonical_path(each) for each in spellings}) == 1
    for index, each in enumerate(spellings[1:]):
        assert [name for name, _ in of_checkpoints({"a": spellings[0], "b": each}, "file:///")] == ["b"], index


def test_folders_that_differ_keep_their_difference() -> None:
    paths = ("/data/cp", "/data/CP", "/data/cp2", "hdfs://names/data/cp", "hdfs://names:9000/data/cp", "s3a://data/cp")
    assert len({canonical_path(each) for each in paths}) == len(paths)
    assert list(of_checkpoints(dict(zip("abcdef", paths, strict=True)), "file:///")) == []


def test_missing_parts_of_a_path_come_from_the_default_file_system() -> None:
    default = "hdfs://names:8020"
    same = ("/cp", "hdfs:///cp", "hdfs://names/cp")
    assert {canonical_path(each, default) for each in same} == {"hdfs://names/cp"}
    assert canonical_path("file:///cp", default) == "file:///cp"


def test_a_link_is_resolved_where_a_resolver_is_given() -> None:
    def real(path: str) -> str:
        return path.replace("/link", "/data")

    assert canonical_path("file:///link/cp", real=real) == canonical_path("/data/cp", real=real)
    assert canonical_path("s3a://link/cp", real=real) == "s3a://link/cp"


def test_one_folder_inside_another_is_a_mistake_however_it_is_written() -> None:
    assert list(of_checkpoints({"a": "/x", "b": "file:///x/y/../z"}, "file:///")) == [
        ("b", "it is inside that of query 'a', /x")
    ]
    assert list(of_checkpoints({"a": "s3://b/x/y", "b": "s3a://b/x"}, "file:///")) == [
        ("b", "that of query 'a', s3a://b/x/y, is inside it")
    ]
    assert list(of_checkpoints({"a": "s3a://b/", "b": "s3a://b/x"}, "file:///")) == [
        ("b", "it is inside that of query 'a', s3a://b/")
    ]


@pytest.mark.parametrize(
    "other",
    ["EAST.example:9092", "east.example.:9092", "east.example:09092"],
)
def test_one_server_in_two_clusters_is_a_mistake(other: str) -> None:
    servers = {"east": ["east.example:9092", "e2:9092"], "west": ["w:9092", other]}
    assert list(of_servers(servers)) == [("west", "east.example:9092 is already a server of cluster 'east'")]


@pytest.mark.parametrize("text", [" k:9092", "k :9092", "k:9092,l:9092", "PLAINTEXT://k:9092", "k:9092 ", ":9092"])
def test_a_server_is_one_host_and_one_port_so_that_it_can_be_compared(text: str) -> None:
    with pytest.raises(ValidationError, match="is not host:port"):
        Cluster.model_validate({"bootstrap": [text]})
    assert Cluster.model_validate({"bootstrap": ["kafka_1.x:9092", "[::1]:9092"]}).bootstrap[1] == "[::1]:9092"


def test_this_host_and_an_ipv6_address_have_one_name_each() -> None:
    assert len({canonical_server(each) for each in ("localhost:1", "127.0.0.1:1", "[::1]:1", "LOCALHOST:1")}) == 1
    assert canonical_server("[2001:DB8:0::1]:1") == canonical_server("[2001:db8::1]:1")
    assert canonical_server("127.0.0.2:1") != canonical_server("127.0.0.1:1")
    assert list(of_servers({"east": ["e:1", "e:1", "E:1"], "west": ["e:2"]})) == []


def test_two_topics_of_one_name_behind_a_route_are_a_mistake() -> None:
    assert list(of_route({"orders": "all", "refunds": "all", "other": "other"})) == [
        "'orders' and 'refunds' are both named 'all': each topic needs a name of its own"
    ]
    assert list(of_route({"a": "b", "b": "a"})) == []
    assert list(of_route({"prefix": "east."})) == list(of_route("identity")) == []


@pytest.mark.parametrize(
    ("there", "back", "mistake"),
    [
        ({"orders": "o2"}, {"o2": "orders"}, None),
        ({"orders": "east.orders"}, {"orders": "west.orders"}, None),
        ({"orders": "o2"}, {"o2": "o3"}, "'orders' is named 'o2' there, but 'o2' comes back as 'o3'"),
        ({"orders": "o2"}, {"x": "orders"}, "'orders' is named 'o2' there, but what comes back as 'orders' is 'x'"),
        ({"a": "x", "b": "y"}, {"x": "b", "y": "a"}, "'a' is named 'x' there, but 'x' comes back as 'b'"),
        ({"prefix": "east."}, {"o2": "o3"}, None),
    ],
)
def test_a_topic_comes_back_under_the_name_under_which_it_left(
    there: dict[str, str], back: dict[str, str], mistake: str | None
) -> None:
    assert next(of_way_back(there, back), None) == mistake


EAST_WEST, WEST_EAST = ("east", "west"), ("west", "east")


@pytest.mark.parametrize(
    ("names", "routes", "mistake"),
    [
        (["orders", "all"], {EAST_WEST: {"orders": "all"}}, "'orders' and 'all' are both named 'all' on west"),
        (["orders", "east.orders"], {WEST_EAST: {"prefix": "east."}}, "'orders' and 'east.orders' are both named"),
        (["orders"], {EAST_WEST: {"orders": "o2"}, WEST_EAST: "identity"},
         "'orders' is named 'orders' on east, but the route from west copies 'o2' to 'o2'"),
        (["orders"], {EAST_WEST: "identity", WEST_EAST: {"orders": "o2"}},
         "'orders' is named 'orders' on east, but the route from west copies 'orders' to 'o2'"),
        (["orders", "refunds"], {EAST_WEST: "identity", WEST_EAST: "identity"}, None),
        (["orders"], {EAST_WEST: {"prefix": "east."}, WEST_EAST: {"prefix": "west."}}, None),
        (["orders", "refunds"], {EAST_WEST: {"orders": "refunds", "refunds": "orders"},
                                 WEST_EAST: {"orders": "refunds", "refunds": "orders"}}, None),
    ],
)  # fmt: skip
def test_each_topic_of_a_query_has_one_name_on_each_of_its_clusters(
    names: list[str], routes: dict[tuple[str, str], str | dict[str, str]], mistake: str | None
) -> None:
    found = list(of_query(names, ["east", "west"], routes))
    assert (found == []) if mistake is None else found[0].startswith(mistake)


NAMES = st.sampled_from("abcd")


@given(topics=st.lists(NAMES, unique=True), there=st.dictionaries(NAMES, NAMES), back=st.dictionaries(NAMES, NAMES))
def test_an_accepted_map_gives_each_offset_one_place_and_leads_home(
    topics: list[str], there: dict[str, str], back: dict[str, str]
) -> None:
    """Of two logs that a route joins, one position would count for both; this says what ``of_query`` promises."""
    mistakes = [*of_route(there), *of_route(back), *of_way_back(there, back)]
    mistakes += of_query(topics, ["east", "west"], {EAST_WEST: there, WEST_EAST: back})
    if mistakes:
        return
    rename = renaming(there, back)
    on_west = [rename(topic) for topic in topics]
    assert len(set(on_west)) == len(topics)
    for topic, name in zip(topics, on_west, strict=True):
        assert copied_as(back, name) in {None, topic}
        assert copied_as(there, topic) in {None, name}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("/cp/q", "file:///cp//q/", True),
        ("s3://b/cp/q", "s3a://b/cp/./q", True),
        ("hdfs://H:8020/cp/q", "hdfs://h/cp/q", True),
        ("/cp/q", "/cp/q-2", False),
        ("s3://b/cp/q", "/cp/q", False),
    ],
)
def test_a_row_that_spells_its_checkpoint_in_another_way_stays_on_it(one: str, other: str, same: bool) -> None:
    """Else the checkpoint in use is kept as one that was left, and is cleaned later."""
    stored = samples.assignment(checkpoint=one)
    assert (left_by(stored, samples.assignment(checkpoint=other, epoch=stored.epoch + 1), samples.AT) is None) is same
    held = samples.fact(checkpoint=other, held_by="op")
    assert (held_by(stored, held) == "op") is same
