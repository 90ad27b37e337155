"""Searches among whole segments: what is requested, and the answer; one table for every log that knows them.

The log holds ``RECORDS`` records in segments of ``SEGMENT_RECORDS``, and each segment's file was last written at the
time of its last record; the newest is being written. Known cases of Kafka's ``LogOffsetTest`` (before now, before the
log, before the earliest, bounded count).
"""

import pytest

from streaming.cluster_log import Spec
from tests.fakecluster import BASE_MS, SEGMENT_RECORDS, STEP_MS

RECORDS = 10 * SEGMENT_RECORDS


def written_at(offset: int) -> int:
    """Record time, which here is also when the file was written, in milliseconds."""
    return BASE_MS + offset * STEP_MS


over_segments = pytest.mark.parametrize(
    ("requested", "limit", "offsets"),
    [
        (-1, 1, (1000,)),
        (-1, 3, (1000, 900, 800)),
        (Spec.LATEST, 2, (1000, 900)),
        (-2, 1, (0,)),
        (Spec.EARLIEST, 5, (0,)),
        (written_at(99) - 1, 5, ()),
        (written_at(99), 5, (0,)),
        (written_at(299), 1, (200,)),
        (written_at(399) - 1, 2, (200, 100)),
        (written_at(399), 9, (300, 200, 100, 0)),
        (0, 1, ()),
    ],
)
"""-1 is latest and -2 earliest, though documents print it the other way round."""
