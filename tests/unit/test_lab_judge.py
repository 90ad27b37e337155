"""The verdict's arithmetic: a loss, a repeat, and both at once, must show; what is no fault must not."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as some

from lab.judge import Held, Tally, Truth, Verdict, explains, judge_by_id, judge_by_window

WINDOW_MS = 10_000


def held(identity: int, offset: int, *, partition: int = 0, at_ms: int = 0) -> Held:
    return Held(identity, partition, offset, at_ms)


def truth(*, standby: Iterable[Held], tail: Iterable[Held] = (), acked: Iterable[int] | None = None) -> Truth:
    on_standby, on_primary = list(standby), list(tail)
    known = [each.id for each in (*on_standby, *on_primary)] if acked is None else acked
    return Truth.gather(acked=known, standby=on_standby, elsewhere=on_primary)


TEN = truth(standby=[held(identity, 37 + identity) for identity in range(1, 11)])


def windowed(of: Truth, delivered: Iterable[int], *, deduplicates: bool = False) -> Verdict:
    ids = list(delivered)
    return judge_by_window(of, {0: Tally(len(ids), sum(ids))}, WINDOW_MS, deduplicates=deduplicates)


def faults(verdict: Verdict) -> tuple[int, int]:
    return verdict.lost, verdict.duplicated


def test_everything_delivered_once_is_clean_by_id_and_by_window() -> None:
    by_id = judge_by_id(TEN, dict.fromkeys(range(1, 11), 1))
    by_window = windowed(TEN, range(1, 11))
    assert by_id.clean
    assert by_window.clean
    assert (by_id.acked, by_id.replicated, by_id.delivered, by_id.exposed) == (10, 10, 10, 0)
    assert by_window.delivered == 10
    assert (by_id.late_dropped, by_window.late_dropped) == (0, None)


def test_a_loss_is_counted() -> None:
    assert faults(judge_by_id(TEN, dict.fromkeys(range(1, 9), 1))) == (2, 0)
    assert faults(windowed(TEN, range(1, 9))) == (2, 0)


def test_a_repeat_is_counted() -> None:
    assert faults(judge_by_id(TEN, {identity: 2 if identity > 7 else 1 for identity in range(1, 11)})) == (0, 3)
    assert faults(windowed(TEN, [*range(1, 11), 3, 4, 5])) == (0, 3)


def test_a_loss_and_a_repeat_that_cancel_out_in_the_count_show_by_the_sum() -> None:
    verdict = windowed(TEN, [*range(1, 10), 3])
    assert faults(verdict) == (1, 1)


def test_a_window_that_no_record_belongs_to_is_all_repeats() -> None:
    windows = {0: Tally(10, 55), 50_000: Tally(2, 7)}
    assert faults(judge_by_window(TEN, windows, WINDOW_MS, deduplicates=False)) == (0, 2)


def test_a_window_that_the_sink_never_wrote_is_lost() -> None:
    assert faults(judge_by_window(TEN, {}, WINDOW_MS, deduplicates=False)) == (10, 0)


def test_records_go_to_the_window_of_their_own_timestamp() -> None:
    two = truth(standby=[held(1, 0, at_ms=9_999), held(2, 1, at_ms=10_000)])
    assert judge_by_window(two, {0: Tally(1, 1), 10_000: Tally(1, 2)}, WINDOW_MS, deduplicates=False).clean
    assert not judge_by_window(two, {0: Tally(2, 3)}, WINDOW_MS, deduplicates=False).clean


def test_what_was_read_on_the_primary_and_never_replicated_is_delivered_not_repeated() -> None:
    exposed = truth(standby=[held(1, 37)], tail=[held(2, 1), held(3, 2), held(4, 3)])
    verdict = windowed(exposed, [1, 2, 3])
    assert verdict.clean
    assert (verdict.delivered, verdict.exposed, verdict.replicated) == (3, 3, 1)
    assert judge_by_id(exposed, {1: 1, 2: 1, 3: 1}).clean


def test_a_tail_is_read_from_its_beginning_so_a_gap_in_it_is_a_fault() -> None:
    exposed = truth(standby=[held(1, 37)], tail=[held(2, 1), held(3, 2), held(4, 3)])
    assert not windowed(exposed, [1, 4]).clean


def test_an_exposed_record_read_twice_is_a_repeat() -> None:
    exposed = truth(standby=[held(1, 37)], tail=[held(2, 1)])
    assert faults(judge_by_id(exposed, {1: 1, 2: 2})) == (0, 1)
    assert not windowed(exposed, [1, 2, 2]).clean


def test_copies_that_the_replicator_wrote_again_are_resent_and_may_be_delivered_without_de_duplication() -> None:
    copied = truth(standby=[held(1, 37), held(2, 38), held(1, 39), held(2, 40)])
    assert windowed(copied, [1, 2]).resent == 2
    assert windowed(copied, [1, 2]).clean
    assert windowed(copied, [1, 2, 2]).clean
    assert windowed(copied, [1, 2, 1, 2]).clean
    assert not windowed(copied, [1, 2, 1]).clean, "the copies that are read are the last ones"
    assert judge_by_id(copied, {1: 2, 2: 2}).clean
    assert faults(judge_by_id(copied, {1: 3, 2: 2})) == (0, 1)


def test_copies_are_repeats_in_a_sink_whose_query_de_duplicates() -> None:
    copied = truth(standby=[held(1, 37), held(1, 38)])
    assert not windowed(copied, [1, 1], deduplicates=True).clean


def test_an_unacknowledged_record_on_the_standby_belongs_to_the_truth_but_not_to_the_acknowledged() -> None:
    written = truth(standby=[held(1, 37), held(2, 38)], acked=[1])
    verdict = windowed(written, [1, 2])
    assert verdict.clean
    assert (verdict.acked, verdict.replicated, verdict.exposed) == (1, 1, 0)


def test_too_many_records_in_doubt_are_called_unproven_not_clean_by_luck() -> None:
    tail = [held(identity, identity, partition=identity % 4) for identity in range(10_000, 14_000)]
    doubtful = truth(standby=[held(1, 37)], tail=tail)
    assert windowed(doubtful, [1, *range(10_000, 12_000)]).unproven == 1


@given(
    tails=some.lists(some.lists(some.integers(1, 10**6), max_size=12), max_size=4),
    data=some.data(),
)
def test_any_choice_of_prefixes_is_explained_and_one_id_more_is_not(
    tails: list[list[int]], data: some.DataObject
) -> None:
    cuts = [data.draw(some.integers(0, len(tail))) for tail in tails]
    taken = [identity for tail, cut in zip(tails, cuts, strict=True) for identity in tail[:cut]]
    assert explains(tails, Tally(len(taken), sum(taken))) is True
    assert explains(tails, Tally(len(taken), sum(taken) + 10**9)) is False


@given(
    copies=some.lists(some.integers(1, 30), min_size=1, max_size=60),
    deliveries=some.lists(some.integers(1, 40), max_size=60),
)
def test_judging_by_id_agrees_with_counting_by_hand(copies: list[int], deliveries: list[int]) -> None:
    on_standby, delivered = Counter(copies), Counter(deliveries)
    verdict = judge_by_id(truth(standby=[held(each, n) for n, each in enumerate(copies)]), delivered)
    assert verdict.lost == len(on_standby.keys() - delivered.keys())
    assert verdict.duplicated == sum(max(0, n - max(1, on_standby[each])) for each, n in delivered.items())
    assert verdict.resent == len(copies) - len(on_standby)
