"""What a standby shows of records that were sent again, where the last ones read are alike."""

import pytest

from tests.unit.streaming.standby import T0, Slot, one, shows, standby, stream, want

OLD = [*stream(0, 37), *((offset, T0 + 370, "beat") for offset in range(37, 40))]


@pytest.mark.parametrize("step", [1, 2])
def test_equal_last_records_of_one_pass_are_all_there(step: int) -> None:
    """``step``: offsets from copy to copy; between them lie markers."""
    here = [(step * offset, time, value) for offset, time, value in OLD]
    shows(one(standby(Slot(here)), want(OLD)), exact=True, target_offset=39 * step + 1, replay_later_records=0)


def test_equal_records_read_before_the_remembered_ones_were_not_sent_again() -> None:
    """The oldest remembered ones are alike as well, and more of them were read before."""
    old = [
        *((offset, T0, "first") for offset in range(20)),
        *((offset, T0 + 10 * offset, f"r{offset}") for offset in range(20, 37)),
        *OLD[37:],
    ]
    here = [(2 * offset, time, value) for offset, time, value in old]
    shows(one(standby(Slot(here)), want(old, remembered=22)), exact=True, target_offset=79, replay_later_records=0)
