"""Rules between keys that need no whole configuration; ``test_load`` has those that a person meets."""

from state.settings.key_rules import circle_in


def test_a_circle_of_queries_is_named_with_its_first_at_both_ends() -> None:
    assert circle_in({"a": ["b"], "b": []}) == ()
    circle = circle_in({"a": ["c"], "b": ["a"], "c": ["b"], "d": ["a"]})
    assert circle[0] == circle[-1]
    assert "".join(circle[:-1]) in {"abc", "bca", "cab"}
