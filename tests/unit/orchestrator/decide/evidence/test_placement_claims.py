"""The claims of a document, partition by partition, against logs that are written down here."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.decide.evidence.claims import Placed, Verdict
from orchestrator.decide.evidence.placement_claims import Seen, of_partition, range_of
from orchestrator.facts.evidence.verification import _parts
from state.model.plan import FollowedPartition, PlannedPartition, StandbyPartition
from streaming.cluster_log import LogRecord
from streaming.resume.notes import UNPROVEN_BOUND

HOLDS, WRONG, UNKNOWN = Verdict.HOLDS, Verdict.DOES_NOT_HOLD, Verdict.CANNOT_BE_CHECKED


def digest(number: int) -> bytes:
    return bytes([number]) * 16


def log(first: int, last: int, *, moved: int = 0, left_out: tuple[int, ...] = ()) -> tuple[LogRecord, ...]:
    """Records whose number is their offset less ``moved``; ``left_out`` offsets hold markers."""
    return tuple(
        LogRecord(offset, 1000 * (offset - moved), digest(offset - moved), append_time=False)
        for offset in range(first, last)
        if offset not in left_out
    )


def one(at: int = 20, *, read: int = 20, remembered: tuple[int, ...] = (18, 19), **changes: Any) -> Placed:
    """A partition that was read up to a number, and resumes at an offset of a log that had 30."""
    row = {
        "offset": read, "target_offset": at, "method": "exact", "begin": 0, "end": 30, "replay_records": 0,
        "exposure_records": 5, "note": "", **changes,
    }  # fmt: skip
    followed = {
        "offset": at, "until": 40, "seen": 7, "new": 7, "repeated": 7, "new_after_ms": 1000 * (read - 1),
        "records": [f"{1000 * n}:{digest(n).hex()}:{read - 1 - n}" for n in remembered],
    }  # fmt: skip
    key = StandbyPartition("s", "orders", 0)
    kept = FollowedPartition.of({**key._asdict(), **followed})
    return Placed(key=key, row=PlannedPartition.of(row), followed=kept)


def seen(records: tuple[LogRecord, ...] | None = None, *, begin: int = 0, end: int = 35) -> Seen:
    return Seen(begin=begin, end=end, first=begin, last=end, records=log(begin, end) if records is None else records)


def verdicts(placed: Placed, there: Seen) -> list[Verdict]:
    return [claim.verdict for claim in of_partition(placed, there)]


CASES: dict[str, tuple[Placed, Seen, list[Verdict]]] = {
    "the place right behind": (one(), seen(), [HOLDS, HOLDS]),
    "one too late": (one(21), seen(), [WRONG, HOLDS]),
    "one too early": (one(19), seen(), [HOLDS, WRONG]),
    "too early, and forecast so": (one(17, replay_records=3), seen(), [HOLDS, HOLDS]),
    "markers before the place": (one(23), seen(log(0, 35, left_out=(20, 21, 22))), [HOLDS, HOLDS]),
    "the newest have twins": (one(remembered=(17,)), seen(), [HOLDS, HOLDS]),
    "the newest have twins, and it is too late": (one(21, remembered=(17,)), seen(), [WRONG, HOLDS]),
    "no copy at all": (one(), seen(log(0, 35, moved=-90)), [WRONG, HOLDS]),
    "behind the end of then": (one(31), seen(end=50), [WRONG, HOLDS]),
    "nothing was read": (one(0, read=0, remembered=()), seen(), [HOLDS, HOLDS]),
    "nothing was read, and something skipped": (one(3, read=0, remembered=()), seen(), [WRONG, HOLDS]),
    "nothing remembered": (one(remembered=()), seen(), [UNKNOWN, UNKNOWN]),
    "partitions that do not match": (replace(one(), followed=None), seen(), [UNKNOWN, UNKNOWN]),
    "no forecast": (one(replay_records=None), seen(), [HOLDS, UNKNOWN]),
    "an upper bound": (one(17, replay_records=9, note=UNPROVEN_BOUND), seen(), [HOLDS, HOLDS]),
    "more than an upper bound": (one(17, replay_records=2, note=UNPROVEN_BOUND), seen(), [HOLDS, WRONG]),
    "fewer than forecast": (one(17, replay_records=9, note="equal records"), seen(), [HOLDS, HOLDS]),
    "fewer than forecast, and it is too late": (one(21, replay_records=9), seen(), [WRONG, HOLDS]),
    "no resume offset": (one(target_offset=None), seen(), [UNKNOWN, UNKNOWN]),
    "deleted since": (one(), seen(begin=22), [UNKNOWN, UNKNOWN]),
    "a log that is shorter now": (one(), seen(end=10), [UNKNOWN, UNKNOWN]),
    "a partition that does not answer": (one(), Seen(error="east does not answer"), [UNKNOWN, UNKNOWN]),
    "too much to read": (one(), replace(seen(), records=None), [UNKNOWN, UNKNOWN]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_claim_is_judged_by_what_the_log_holds(case: str) -> None:
    placed, there, expected = CASES[case]
    found = of_partition(placed, there)
    assert [claim.verdict for claim in found] == expected, found
    assert all(claim.text for claim in found)


def test_the_part_of_a_log_that_is_read_is_bounded() -> None:
    assert range_of(one(), 0, 35) == (0, 35)
    far = one(5_000)
    assert far.followed is not None
    far = replace(far, followed=replace(far.followed, until=10**9))
    assert range_of(far, 0, 10**9) == (5_000 - 1_025, 205_000)
    assert range_of(replace(far, followed=None), 4_990, 10**9) == (4_990, 5_000)
    assert range_of(far, 300_000, 300_001) == (300_000, 300_000)


def test_one_partition_that_two_sources_read_is_read_twice() -> None:
    twice = [one(), replace(one(), key=StandbyPartition("t", "orders", 0))]
    assert [len(part) for part in _parts(twice)] == [1, 1]
    many = [replace(one(), key=StandbyPartition("s", "orders", number)) for number in range(150)]
    assert [len(part) for part in _parts(many)] == [100, 50]
