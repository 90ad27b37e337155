"""Routes by the names of topics: identity, prefix, or a remark."""

from orchestrator.config.first_routes import routes_between


def test_topics_of_the_same_name_give_a_route_each_way() -> None:
    routes, remarks = routes_between({"east": {"orders"}, "west": {"orders", "east.heartbeats"}}, ["orders"])
    assert remarks == ()
    assert [each.as_yaml() for each in routes] == [
        {"from": "east", "to": "west", "topics": "identity", "heartbeats": "east.heartbeats"},
        {"from": "west", "to": "east", "topics": "identity"},
    ]


def test_topics_behind_a_prefix_give_a_route_one_way() -> None:
    west = {"east.orders", "mm2-offset-syncs.east.internal"}
    routes, _ = routes_between({"east": {"orders", "heartbeats"}, "west": west}, [])
    assert [each.as_yaml() for each in routes] == [
        {"from": "east", "to": "west", "topics": {"prefix": "east."}, "offset_syncs": "mm2-offset-syncs.east.internal"}
    ]


def test_an_undecided_route_is_a_remark_and_not_declared() -> None:
    routes, (remark,) = routes_between({"east": {"orders"}, "west": {"orders", "east.orders"}}, ["orders"])
    assert routes == ()
    assert "1 by the same name and 1 as east.TOPIC" in remark
    routes, (remark,) = routes_between({"east": {"orders", "other"}, "west": {"orders"}}, [])
    assert routes == ()
    assert "of 2 topics west has 1" in remark


def test_a_topic_that_home_lacks_is_named() -> None:
    _, remarks = routes_between({"east": set(), "west": {"orders"}}, ["orders"])
    assert "east has no topic orders" in remarks[0]
