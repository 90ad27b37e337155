"""What a rule of a bucket does to a checkpoint; rules of real clients are read in the real test of the same name."""

import pytest

from state.model.entities import RulesFound
from streaming.spark.bucket_rules import Rule, _moves, judged


@pytest.mark.parametrize("kind", ["STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR"])
def test_objects_that_move_to_a_class_without_restore_stay_readable(kind: str) -> None:
    assert _moves([(kind, 30, None)]) == []


@pytest.mark.parametrize("kind", ["GLACIER", "DEEP_ARCHIVE", "A_CLASS_OF_TOMORROW"])
def test_objects_that_move_elsewhere_are_named(kind: str) -> None:
    does = _moves([("STANDARD_IA", 30, None), (kind, 90, None)])
    assert does == [f"moves them to {kind} after 90 days"]
    found = judged([Rule(name="r", prefix="cp/", does=tuple(does))], "b", "cp/q/")
    assert found.found is RulesFound.RULES
    assert found.text == f"rule r of bucket b takes objects below cp/, and moves them to {kind} after 90 days"


def test_a_rule_that_takes_only_tagged_objects_leaves_it_unknown() -> None:
    rule = Rule(name="r", prefix="", does=("deletes them after 1 day",), only=("with a tag",))
    assert judged([rule], "b", "cp/q/").found is RulesFound.UNKNOWN
    assert judged([rule], "b", "cp/q/").text.startswith(
        "rule r of bucket b takes objects with a tag in the whole bucket"
    )


def test_rules_of_other_prefixes_and_rules_that_do_nothing_are_none() -> None:
    rules = [Rule(name="o", prefix="logs/", does=("deletes them after 1 day",)), Rule(name="n", prefix="", does=())]
    assert judged(rules, "b", "cp/q/").found is RulesFound.NONE
