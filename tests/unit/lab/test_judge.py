"""The verdict's arithmetic: a loss, a repeat, and both at once, must show; what is no fault must not."""

from collections import Counter
from collections.abc import Iterable
from hashlib import md5

from hypothesis import given
from hypothesis import strategies as some

from lab.judge import QueryVerdict, judge_by_id, judge_by_sums, weigh, weight
from lab.ledger import IDS_PER_RUN, UNKNOWN_OFFSET, Sent
from lab.truth import Held, Topic, Truth, in_order

WINDOW_MS = 10_000
ORDERS = ("orders", 0)


def held(identity: int, offset: int, *, partition: int = 0, at_ms: int = 0) -> Held:
    return Held(identity, partition, offset, at_ms)


def truth(*, standby: Iterable[Held], tail: Iterable[Held] = (), acked: Iterable[int] | None = None) -> Truth:
    """A primary that holds first what the standby holds, and then the tail."""
    on_standby = list(standby)
    first = {each.id: each for each in reversed(on_standby)}
    on_primary = [*(first[each] for each in dict.fromkeys(each.id for each in on_standby)), *tail]
    known = [each.id for each in on_primary] if acked is None else acked
    direct = [Sent(each, 0, 0, 0) for each in known]
    return Truth({"orders": Topic.gather(direct=direct, standby=on_standby, primary=on_primary)})


TEN = truth(standby=[held(identity, 37 + identity) for identity in range(1, 11)])


def windowed(of: Truth, delivered: Iterable[int], *, deduplicates: bool = False) -> QueryVerdict:
    rows = {ORDERS: {0: sum(map(weigh, delivered))}}
    return judge_by_sums(of, rows, WINDOW_MS, deduplicates=deduplicates)


def faults(verdict: QueryVerdict) -> tuple[int, int]:
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


def test_four_records_whose_losses_and_repeats_keep_the_sum_of_ids_show() -> None:
    verdict = windowed(TEN, [1, 2, 2, 3, 3, 5, 6, 7, 8, 9, 10])
    assert sum([1, 4]) == sum([2, 3])
    assert not verdict.clean
    assert verdict.judged == "by 1 sums; no reading explains orders-0"


def test_a_window_that_no_record_belongs_to_is_all_repeats() -> None:
    windows = {0: sum(map(weigh, range(1, 11))), 50_000: sum(map(weigh, (3, 4)))}
    assert judge_by_sums(TEN, {ORDERS: windows}, WINDOW_MS, deduplicates=False).duplicated == 2


def test_a_window_that_the_sink_never_wrote_is_lost() -> None:
    assert faults(judge_by_sums(TEN, {}, WINDOW_MS, deduplicates=False)) == (10, 0)


def test_a_record_under_another_partition_is_a_loss_there_and_a_repeat_here() -> None:
    two = truth(standby=[held(1, 37), held(2, 37, partition=1)])
    right = {("orders", 0): {0: weigh(1)}, ("orders", 1): {0: weigh(2)}}
    assert judge_by_sums(two, right, WINDOW_MS, deduplicates=False).clean
    wrong = {("orders", 0): {0: weigh(1) + weigh(2)}}
    assert faults(judge_by_sums(two, wrong, WINDOW_MS, deduplicates=False)) == (2, 1)


def test_rows_of_a_partition_that_no_topic_has_are_repeats() -> None:
    right = {ORDERS: {0: sum(map(weigh, range(1, 11)))}}
    for elsewhere in (("orders", 5), ("returns", 0)):
        verdict = judge_by_sums(TEN, {**right, elsewhere: {0: weigh(3)}}, WINDOW_MS, deduplicates=False)
        assert verdict.duplicated == 1
        assert f"no reading explains {elsewhere[0]}-{elsewhere[1]}" in verdict.judged


def test_without_an_explanation_each_window_has_its_least_error() -> None:
    logs = truth(standby=[held(each, 37 + each, at_ms=each * 5_000) for each in range(8)])
    windows = {10_000: weigh(2) + weigh(3), 20_000: 3 * weigh(4), 30_000: 2 * weigh(7)}
    verdict = judge_by_sums(logs, {ORDERS: windows}, WINDOW_MS, deduplicates=False)
    assert faults(verdict) == (2 + 1, 1 + 1), "one window missing, one too large, and one of other records"
    assert verdict.judged == "by 3 sums; no reading explains orders-0"


def test_each_topic_is_judged_alone() -> None:
    one, other = (truth(standby=[held(each, 37)]).topics["orders"] for each in (1, 2))
    both = Truth({"orders": one, "returns": other})
    right = {("orders", 0): {0: weigh(1)}, ("returns", 0): {0: weigh(2)}}
    assert judge_by_sums(both, right, WINDOW_MS, deduplicates=False).clean
    swapped = {("orders", 0): {0: weigh(2)}, ("returns", 0): {0: weigh(1)}}
    assert not judge_by_sums(both, swapped, WINDOW_MS, deduplicates=False).clean
    assert not judge_by_sums(both, {("orders", 0): {0: weigh(1)}}, WINDOW_MS, deduplicates=False).clean


def test_an_id_that_two_topics_hold_must_be_delivered_twice() -> None:
    topic = truth(standby=[held(1, 37)]).topics["orders"]
    both = Truth({"orders": topic, "returns": topic})
    assert faults(judge_by_id(both, {1: 1})) == (1, 0)
    assert judge_by_id(both, {1: 2}).clean


def test_records_go_to_the_window_of_their_own_timestamp() -> None:
    two = truth(standby=[held(1, 0, at_ms=9_999), held(2, 1, at_ms=10_000)])
    right = {ORDERS: {0: weigh(1), 10_000: weigh(2)}}
    assert judge_by_sums(two, right, WINDOW_MS, deduplicates=False).clean
    assert not judge_by_sums(two, {ORDERS: {0: weigh(1) + weigh(2)}}, WINDOW_MS, deduplicates=False).clean


def test_a_primary_record_that_was_never_replicated_is_not_repeated() -> None:
    exposed = truth(standby=[held(1, 37)], tail=[held(2, 1), held(3, 2), held(4, 3)])
    verdict = windowed(exposed, [1, 2, 3])
    assert verdict.clean
    assert (verdict.delivered, verdict.exposed, verdict.replicated) == (3, 3, 1)
    assert judge_by_id(exposed, {1: 1, 2: 1, 3: 1}).clean


def test_a_tail_is_read_from_its_beginning_so_a_gap_in_it_is_a_fault() -> None:
    exposed = truth(standby=[held(1, 37)], tail=[held(2, 1), held(3, 2), held(4, 3)])
    assert not windowed(exposed, [1, 4]).clean
    assert faults(judge_by_id(exposed, {1: 1, 4: 1})) == (2, 0)
    assert not windowed(exposed, [1, 3, 4]).clean


def test_an_exposed_record_read_twice_is_a_repeat() -> None:
    exposed = truth(standby=[held(1, 37)], tail=[held(2, 1)])
    assert faults(judge_by_id(exposed, {1: 1, 2: 2})) == (0, 1)
    assert not windowed(exposed, [1, 2, 2]).clean


def test_copies_written_again_by_the_replicator_are_resent() -> None:
    copied = truth(standby=[held(1, 37), held(2, 38), held(1, 39), held(2, 40)])
    assert windowed(copied, [1, 2]).resent == 2
    assert windowed(copied, [1, 2]).clean
    assert windowed(copied, [1, 2, 2]).clean
    assert windowed(copied, [1, 2, 1, 2]).clean
    assert windowed(copied, [1, 2, 1]).clean, "1 was read on the primary, and then all from the third record on"
    assert not windowed(copied, [1, 1, 1]).clean
    assert not windowed(copied, [1, 1, 2, 2, 2]).clean
    assert judge_by_id(copied, {1: 2, 2: 2}).clean
    assert faults(judge_by_id(copied, {1: 3, 2: 2})) == (0, 1)


def test_a_query_that_de_duplicates_and_begins_too_late_is_explained() -> None:
    copied = truth(standby=[held(identity, 37 + at) for at, identity in enumerate((1, 4, 3, 2, 4))])
    verdict = windowed(copied, [4, 2], deduplicates=True)
    assert (faults(verdict), verdict.judged) == ((2, 0), "by 1 sums")


def test_a_record_weighs_one_and_two_numbers_of_32_bits() -> None:
    digest = md5(b"7").hexdigest()
    assert weigh(7) == weight(1, int(digest[:8], 16), int(digest[8:16], 16))


def test_copies_are_repeats_in_a_sink_whose_query_de_duplicates() -> None:
    copied = truth(standby=[held(1, 37), held(1, 38)])
    assert not windowed(copied, [1, 1], deduplicates=True).clean


def test_an_unacknowledged_record_on_the_standby_is_only_of_the_truth() -> None:
    written = truth(standby=[held(1, 37), held(2, 38)], acked=[1])
    verdict = windowed(written, [1, 2])
    assert verdict.clean
    assert (verdict.acked, verdict.replicated, verdict.exposed) == (1, 1, 0)


def test_a_record_that_no_producer_knows_to_be_written_can_be_lost() -> None:
    written = truth(standby=[held(1, 37), held(2, 38)], acked=[1])
    assert faults(windowed(written, [1])) == (1, 0)
    assert faults(judge_by_id(written, {1: 1})) == (1, 0)


def test_a_loss_before_the_cut_shows_among_thousands_of_exposed_records() -> None:
    tail = [held(10_000 + number, 5_000 + number) for number in range(4_000)]
    doubtful = truth(standby=[held(number, 37 + number) for number in range(1, 3_001)], tail=tail)
    read = [*range(1, 3_001), *range(10_000, 12_000)]
    assert windowed(doubtful, read).clean
    assert windowed(doubtful, read[:-1]).clean, "the query left one record earlier"
    for lost in (3_000, 2_999, 1_500):
        assert windowed(doubtful, [each for each in read if each != lost]).lost == 1


def test_a_place_too_late_or_too_early_is_counted_record_by_record() -> None:
    assert faults(windowed(TEN, [1, 2, 3, 6, 7, 8, 9, 10])) == (2, 0)
    assert faults(windowed(TEN, [1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8, 9, 10])) == (0, 3)


def test_late_standby_records_read_again_are_repeated_and_hide_no_loss() -> None:
    """Read up to 5 on the primary when the standby had 3; then 20 was written there, and 4 to 6 came over."""
    logs = [held(each, offset) for offset, each in enumerate((1, 2, 3, 20, 4, 5, 6), 37)]
    primary = [held(each, each) for each in range(1, 7)]
    late = Truth({"orders": Topic.gather(standby=logs, primary=primary)})
    assert faults(windowed(late, [1, 2, 3, 4, 5, 20, 4, 5, 6])) == (0, 2)
    assert windowed(late, [1, 2, 3, 4, 5, 4, 5, 6]).lost
    assert windowed(late, [1, 2, 4, 5, 20, 4, 5, 6]).lost


def test_a_query_that_has_not_come_to_the_end_yet_lacks_what_is_behind_it() -> None:
    logs = truth(standby=[held(each, 37 + each) for each in range(1, 11)], tail=[held(20, 20), held(21, 21)])
    assert faults(windowed(logs, [*range(1, 8), 20])) == (3, 0)
    assert windowed(logs, [*range(1, 8), 20]).judged == "by 1 sums"


def sent(number: int, offset: int, *, run: int = 1) -> Sent:
    return Sent(run * IDS_PER_RUN + number, 0, offset, 0)


def ids(records: Iterable[Held]) -> list[int]:
    return [each.id % IDS_PER_RUN for each in records]


def test_the_order_of_a_dead_primary_is_that_of_its_answers() -> None:
    noted = [sent(1, 5), sent(3, 9), sent(2, 7), sent(4, UNKNOWN_OFFSET), sent(5, UNKNOWN_OFFSET)]
    assert ids(in_order([], noted)) == [1, 2, 3, 4, 5], "what was never answered may have been written at the end"


def test_unanswered_sends_count_as_written_only_where_there_is_room() -> None:
    first = [sent(1, 5), *(sent(each, UNKNOWN_OFFSET) for each in (2, 3))]
    assert ids(in_order([], [*first, sent(4, 6, run=2)])) == [1, 4]
    assert ids(in_order([], [*first, sent(4, 7, run=2)])) == [1, 2, 4]
    assert ids(in_order([], [*first, sent(4, 8, run=2)])) == [1, 2, 3, 4]


def test_records_read_on_the_primary_show_which_sends_were_not_written() -> None:
    read = [Held(IDS_PER_RUN + each, 0, offset, 0) for each, offset in ((1, 5), (2, 6), (4, 9))]
    noted = [sent(1, 5), sent(2, UNKNOWN_OFFSET), sent(3, UNKNOWN_OFFSET), sent(4, 9), sent(5, 10)]
    assert ids(in_order(read, noted)) == [1, 2, 4, 5]


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
