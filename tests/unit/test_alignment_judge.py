"""The judge of the matrix: by numbers alone it distinguishes a late place from an early one and from a right one."""

import pytest

from tests.alignment.judge import Judge, Verdict
from tests.alignment.records import Kept

OLD = [Kept(offset, number) for offset, number in ((0, 1), (1, 2), (3, 3), (4, 4), (5, 5))]
"""Offset 2 is a marker."""
SENT = [None, 1, 2, 3, 2, 3, 4]
"""A foreign record, three records, two of them again, one more; the fifth is not there yet."""
HERE = [Kept(offset, number) for offset, number in enumerate(SENT)]


@pytest.mark.parametrize(
    ("position", "place", "kind", "verdict"),
    [
        (4, 4, "exact", Verdict(lost=0, repeated=0, resent=2, absent=0)),
        (4, 3, "earlier", Verdict(lost=0, repeated=1, resent=1, absent=0)),
        (4, 6, "exact", Verdict(lost=0, repeated=0, resent=0, absent=0)),
        (4, 7, "later", Verdict(lost=1, repeated=0, resent=0, absent=0)),
        (2, 3, "exact", Verdict(lost=0, repeated=0, resent=1, absent=0)),
        (6, 7, "exact", Verdict(lost=0, repeated=0, resent=0, absent=1)),
        (0, 0, "exact", Verdict(lost=0, repeated=0, resent=0, absent=0)),
    ],
)
def test_a_place_is_judged_by_the_numbers_before_and_after_it(
    position: int, place: int, kind: str, verdict: Verdict
) -> None:
    judged = Judge(OLD, HERE).judge(position, place)
    assert (judged, judged.kind) == (verdict, kind)
