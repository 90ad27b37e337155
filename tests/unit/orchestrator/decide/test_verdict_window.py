"""The window: looks in the order in which they began, whatever the order in which they ended."""

from dataclasses import replace
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.decide.verdict import Judgement, judge_cluster
from state.model.cluster_status import Layer
from state.settings.keys import Detection
from streaming.probe.probe_result import KEPT, LayerPassed, Window
from tests.sights import at, row, seen, sight, window


def test_a_success_ends_a_row_of_failures_and_a_failure_a_row_of_successes() -> None:
    failing = window(*row("ok@0 ok@0.5 refused@1 silent@1.5"))
    assert (failing.row, failing.successes, failing.first_failed) == (2, 0, 1.0)
    back = failing.after(sight(2))
    assert (back.row, back.successes, back.first_failed, back.failures) == (0, 1, None, ())
    assert back.longest_row == 2
    assert back.after(sight(2.5)).after(sight(3)).longest_row == 0, "three in a row are trusted"


def test_a_failure_that_ends_after_a_later_success_says_nothing() -> None:
    late = window(sight(0), sight(1)).after(sight(0.5, "silent"))
    assert (late.row, late.successes) == (0, 2)


def test_a_success_that_began_before_a_failure_ends_only_what_came_before_it() -> None:
    seen = window(*row("silent@0 refused@0.5 refused@1 ok@0.7"))
    assert (seen.row, seen.first_failed, seen.successes) == (1, 1.0, 0)
    assert seen.newest_ok == sight(0.7)


def test_probes_begun_before_the_window_was_voided_do_not_count() -> None:
    voided = window(*row("ok@0 refused@0.5")).void(1.0, "the process was stopped for 9 s")
    assert voided.newest is None
    assert voided.after(sight(0.9, "silent")).newest is None
    assert voided.after(sight(0.9)).newest is None
    report = seen(voided)
    assert report is not None
    assert (report.voided_at, report.text, report.last_ok_at) == (
        at(1),
        "the process was stopped for 9 s",
        None,
    )


def test_a_voided_window_counts_after_a_success_or_a_full_row_of_failures() -> None:
    voided = Window(trusted=3).void(0.0, "stopped")
    assert voided.after(sight(1)).voided is None
    twice = voided.after(sight(1, "refused")).after(sight(1.5, "refused"))
    assert twice.voided is not None
    assert twice.after(sight(2, "refused")).voided is None


def test_the_row_is_counted_on_where_its_oldest_failures_are_forgotten() -> None:
    long = window(sight(0), *(sight(1 + number, "refused") for number in range(3 * KEPT)))
    assert (long.row, long.first_failed, len(long.failures)) == (3 * KEPT, 1.0, KEPT)


def test_a_sighting_names_only_the_clusters_own_failures_without_a_break() -> None:
    report = seen("ok@0 refused@1 no-network@2 refused@3 silent@4")
    assert report is not None
    assert report.failed_at == (at(3), at(4))
    assert (report.failures_in_a_row, report.first_failed_at) == (4, at(1))
    assert report.last_ok_at == at(0)
    assert report.seen_at == at(5), "when the newest look ended"
    assert seen("") is None


def test_a_sighting_keeps_the_time_of_each_layer_that_answered() -> None:
    passed = (LayerPassed(layer=Layer.TCP, ms=0.0, kept=True), LayerPassed(layer=Layer.SECURITY, ms=2.12345))
    stuck = seen(window(replace(sight(0, "silent"), passed=passed)))
    assert stuck is not None
    assert (stuck.layers_ms, stuck.layer, stuck.kind) == ({"tcp": 0.0, "security": 2.123}, Layer.SECURITY, "silent")


LOOKS = st.lists(
    st.tuples(st.integers(0, 50), st.sampled_from(("ok", "refused", "silent", "credential"))),
    max_size=5,
    unique_by=lambda each: each[0],
)


@settings(deadline=None)  # a hundred orders of each test run
@given(LOOKS)
def test_the_order_in_which_looks_end_does_not_change_the_row(looks: list[tuple[int, str]]) -> None:
    sights = [sight(float(when), what) for when, what in looks]
    rows = {(seen.row, seen.failures) for order in permutations(sights) if (seen := window(*order))}
    assert len(rows) == 1
    ordered = sorted(sights, key=lambda each: each.began)
    length = next((number for number, each in enumerate(reversed(ordered)) if each.ok), len(ordered))
    assert rows == {(length, tuple(ordered[len(ordered) - length :]))}


def judged(window: Window, now: float) -> Judgement:
    return judge_cluster(seen(window), (), at(now), Detection())


COURSES = st.lists(st.sampled_from(("ok", "limping", "refused", "void")), min_size=1, max_size=12)


@given(COURSES, st.integers(0, 12), st.floats(0, 4))
def test_a_repeated_probe_changes_no_verdict_and_only_a_well_one_repeats(
    course_of_probes: list[str], split: int, later: float
) -> None:
    windows = [Window(trusted=3)]
    for number, what in enumerate(course_of_probes):
        began = number / 2
        if what == "void":
            windows.append(windows[-1].void(began, "the clock jumped"))
        else:
            limping = {"under_replicated": 2} if what == "limping" else {}
            windows.append(windows[-1].after(sight(began, "refused" if what == "refused" else "ok", **limping)))
    before, now = windows[min(split, len(course_of_probes))], len(course_of_probes) / 2 + later
    if windows[-1].repeats(before, now=now, limit=3.0):
        assert judged(windows[-1], now) == judged(before, now=0.1 + (min(split, len(course_of_probes)) - 1) / 2)
        assert course_of_probes[-1] in {"ok", "limping"}


def test_a_lasting_calm_repeats_itself_until_looks_are_late() -> None:
    calm = window(*row("ok@0 ok@0.5 ok@1"))
    later = calm.after(sight(1.5))
    assert later.repeats(calm, now=1.6, limit=3.0)
    assert not later.repeats(calm, now=6.0, limit=3.0)
    assert not later.after(sight(2, "refused")).repeats(calm, now=2.1, limit=3.0)
    assert not later.after(sight(2, leaderless=1)).repeats(calm, now=2.1, limit=3.0)
    assert not window(*row("ok@0 ok@0.5")).repeats(window(*row("ok@0")), now=0.6, limit=3.0), "not yet trusted"
