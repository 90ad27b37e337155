"""Each number by which a place is called exact, on both of its sides."""

from dataclasses import replace

import pytest

from state.settings.keys import MethodName
from streaming.resume.methods.content_search import THIN, TRUSTED
from streaming.resume.methods.timestamp import common_time
from tests.unit.streaming.standby import T0, Slot, copied, one, rules, shows, standby, stream, want

OLD = stream(0, 100)
EXACT = rules(MethodName.EXACT)


def test_the_oldest_remembered_record_is_no_stranger_before_the_place() -> None:
    """All of one time: were the oldest taken for an unread record, the place would be refused."""
    older, alike = OLD[:30], [(number, T0 + 300, f"{number}") for number in range(30, 60)]
    log = standby(Slot(copied([*older, *alike])))
    shows(one(log, want([*older, *alike[:10]], remembered=10), EXACT), target_offset=40, exact=True)


def test_of_two_copies_on_a_compacted_standby_the_first_counts() -> None:
    target = one(standby(Slot(copied(OLD[:45] + OLD[30:60])), cleanup="compact"), want(OLD[:40]))
    shows(target, target_offset=40, method="exact", replay_records=10)


@pytest.mark.parametrize(("left", "place"), [(THIN - 1, None), (THIN, 500 + THIN)])
def test_a_context_that_the_logs_begin_cuts_off_needs_so_many_records(left: int, place: int | None) -> None:
    shows(one(standby(Slot(copied(OLD[40 - left :], 500), begin=500)), want(OLD[:40]), EXACT), target_offset=place)


@pytest.mark.parametrize(("remembered", "exact"), [(TRUSTED - 1, False), (TRUSTED, True)])
def test_with_holes_between_them_so_many_records_make_a_place_exact(remembered: int, exact: bool) -> None:
    old = [record for record in OLD if record[0] != 46]
    shows(one(standby(Slot(copied(old))), want(old[:49], remembered=remembered)), target_offset=49, exact=exact)


@pytest.mark.parametrize(("remembered", "exact"), [(THIN - 1, False), (THIN, True)])
def test_without_holes_fewer_make_it_exact(remembered: int, exact: bool) -> None:
    shows(one(standby(Slot(copied(OLD))), want(OLD[:50], remembered=remembered)), target_offset=50, exact=exact)


@pytest.mark.parametrize(("sent", "place"), [(31, None), (32, 533)])
def test_a_copy_is_the_first_only_behind_more_records_than_the_ring(sent: int, place: int | None) -> None:
    """Else it may be one that was cut short, where retention has taken the first: an unread record lies in front."""
    log = standby(Slot(copied([OLD[45], *OLD[40 - sent : 40]], 500), begin=500, append_time=True))
    shows(one(log, want(OLD[:40], remembered=32), EXACT), target_offset=place)


@pytest.mark.parametrize("twins", [False, True])
def test_an_equal_record_in_a_hole_counts_as_a_repeat_up_to_its_last_copy(twins: bool) -> None:
    first = [*OLD[:3], (3, *OLD[2][1:])] if twins else OLD[:4]
    read = [*first, *OLD[4:20], (23, T0 + 230, "x")]
    here = [*read, (24, T0 + 230, "x"), (25, T0 + 240, "y")]
    shows(one(standby(Slot(copied(here))), want(read)), target_offset=21, exact=False, replay_records=1)


def test_the_common_time_reaches_back_furthest_with_its_buffer() -> None:
    early, late = (want(OLD[:10], timestamp_ms=time) for time in (1_000, 2_000))
    assert common_time([early, late], rules(buffer_ms=50)) == (1_000, 50)
    assert common_time([replace(early, buffer_ms=100), replace(late, buffer_ms=1_500)], rules()) == (2_000, 1_500)
