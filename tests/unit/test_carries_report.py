"""What a row of the report on carries says: what was exposed, and by what each query was judged."""

from typing import Any

from lab.scenario import Script, Story
from tests.long.test_many_carries import _note, _row, page

ROW = {"acked": 10, "replicated": 8, "delivered": 8, "exposed": 2, "lost": 0, "duplicated": 0, "judged": "by 8 ids"}


def story(**changes: Any) -> Story:
    """One query is carried, one is begun afresh."""
    plans = {"orders": {"resume": "carry", "uncommitted_batch": "none"}, "latest": {"resume": "fresh", "totals": {
        "replay_records": 0, "possible_replay_records": 0}}}  # fmt: skip
    return Story(
        script=Script(), plan=(), failover_exit=0, fault_to_first_commit_seconds={},
        operations=[{"query": name, "plan": plan, "measured": {"switch_seconds": 1.5}} for name, plan in plans.items()],
        verdict={"orders": {**ROW, "judged": "by 4 sums", **changes}, "latest": ROW},
    )  # fmt: skip


def row(told: Story) -> str:
    return _row({"fault": "kill", "seed": 7, "warm": True, **_note(told)})


def test_a_row_says_what_was_exposed_and_by_what_it_was_judged() -> None:
    assert row(story()) == (
        "| kill | 7 | 8 | 0 | 0 | 2 | none | 1.50 s | orders by 4 sums; latest by 8 ids | kept |"
    )  # fmt: skip


def test_a_row_of_a_broken_promise_says_what_was_lost() -> None:
    assert row(story(lost=1)).startswith("| kill | 7 | 8 | 1 | 0 | 2 |")
    assert row(story(lost=1)).endswith("| orders: lost 1 |")


def test_a_story_that_broke_was_not_judged() -> None:
    broken = {"fault": "kill", "seed": 7, "warm": True, "problems": ["no world"]}
    assert _row(broken) == "| kill | 7 | | | | | | | not judged | no world |"
    assert _row(broken).count("|") == row(story()).count("|")


def test_a_page_counts_stories_and_says_if_they_are_fewer_than_in_full() -> None:
    notes = [{"fault": "kill", "seed": seed, "warm": True, **_note(story())} for seed in range(30)]
    assert page(notes, "make reports", "commit `abc`").endswith("\n30 stories, 30 carries: every one kept the promise.")
    few = page(notes[:10], "make reports", "commit `abc`, 2 cores")
    assert "Command: `make reports`, commit `abc`, 2 cores." in few
    assert few.endswith("\n10 stories of the 30 of a full report, 10 carries: every one kept the promise.")
