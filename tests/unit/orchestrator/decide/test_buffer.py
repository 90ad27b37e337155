"""The measured buffer: what it is made of, when the default counts, and how far back each partition reaches."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.decide.buffer import Buffer, Measures, buffered, buffers_of, reach
from state.model.entities import Fingerprint
from state.model.fingerprints import Fingerprints
from state.model.maintenance import Disorder, TopicDisorder
from streaming.resume.model import Want
from tests.contract import samples
from tests.unit.orchestrator.decide.gates.test_checks import ASSIGNMENT, NOW

NOW_MS = int(NOW.timestamp() * 1000)
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
DEFAULT_MS = 15 * MINUTE_MS


def ring(*times: int) -> tuple[Fingerprint, ...]:
    return tuple(Fingerprint(offset, time, bytes(16)) for offset, time in enumerate(times))


def position(*times: int, **changes: Any) -> Any:
    values: dict[str, Any] = {"query": "q", "topic": "t", "cluster": "east", "epoch": 1, "tracked_at": NOW}
    return samples.position(**{**values, "ring": Fingerprints.of(ring(*times)), **changes})


def kept(disorder_ms: int = 31_000, steps: int = 1_440, hours: float = 24) -> Disorder:
    seen = TopicDisorder("t", disorder_ms, steps, NOW_MS - int(hours * HOUR_MS), NOW_MS)
    return Disorder(query="q", placed_epoch=1, cluster="east", topics=(seen,), measured_at=NOW)


def one(
    disorder: Disorder | None,
    *positions: Any,
    latencies: Mapping[str, Sequence[int] | None] | None = None,
    **changes: Any,
) -> Buffer:
    given = Measures(assignment=ASSIGNMENT, disorder=disorder, positions=positions, now=NOW)
    (found,) = buffers_of(["t"], replace(given, **changes), target="west", latencies=latencies or {})
    return found


# -- one topic -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("disorder_ms", "buffer_ms", "text"),
    [
        (31_000, 41_000, "41 s measured: timestamps up to 31 s out of order in 24 h over 1,440 steps, margin 10 s"),
        (0, 10_000, "10 s measured: timestamps up to 0 s out of order in 24 h over 1,440 steps, margin 10 s"),
        (40_000, 50_000, "50 s measured: timestamps up to 40 s out of order in 24 h over 1,440 steps, margin 10 s"),
        (
            60_050,
            75_062,
            "75.1 s measured: timestamps up to 60.1 s out of order in 24 h over 1,440 steps, margin 15.1 s",
        ),
        (
            2 * HOUR_MS,
            9_000_000,
            "9,000 s measured: timestamps up to 7,200 s out of order in 24 h over 1,440 steps, margin 1,800 s",
        ),
    ],
)
def test_the_largest_disorder_seen_and_a_margin_are_the_buffer(disorder_ms: int, buffer_ms: int, text: str) -> None:
    assert one(kept(disorder_ms)) == Buffer(topic="t", buffer_ms=buffer_ms, measured=True, text=text)


@pytest.mark.parametrize(
    ("disorder", "changes", "reason"),
    [
        (None, {}, "not measured yet; the leading controller measures it"),
        (kept(steps=59), {}, "needs 60 steps with new records over 60 min, has 59 over 1440 min"),
        (kept(hours=0.99), {}, "needs 60 steps with new records over 60 min, has 1440 over 59 min"),
        (replace(kept(), topics=()), {}, "needs 60 steps with new records over 60 min, has 0 over 0 min"),
        (
            kept(),
            {"now": NOW + timedelta(hours=25)},
            "the last measurement is 25 h old; no controller has measured since",
        ),
        (
            kept(),
            {"assignment": replace(ASSIGNMENT, placed_epoch=2)},
            "not measured since the query moved to",
        ),
        (kept(), {"assignment": replace(ASSIGNMENT, cluster="west")}, "since the query moved to west"),
        (kept(), {"assignment": None}, "not measured yet"),
    ],
)
def test_where_too_little_was_measured_the_default_applies_with_a_reason(
    disorder: Disorder | None, changes: dict[str, Any], reason: str
) -> None:
    found = one(disorder, **changes)
    assert (found.buffer_ms, found.measured) == (DEFAULT_MS, False)
    assert found.text.startswith("900 s by default: ")
    assert reason in found.text


def test_sixty_steps_over_an_hour_are_enough() -> None:
    assert one(kept(steps=60, hours=1)).measured


def test_the_default_is_never_below_what_was_seen() -> None:
    found = one(kept(2 * HOUR_MS, steps=3))
    assert (found.buffer_ms, found.measured) == (9_000_000, False)
    assert found.text.endswith("timestamps up to 7,200 s out of order were seen")


def test_the_records_read_last_count_also_before_the_timeline_has_them() -> None:
    late = position(NOW_MS - 50_000, NOW_MS - 1_000, NOW_MS - 41_000, batch=9)
    assert one(kept(5_000), position(NOW_MS, 0, batch=8), late).buffer_ms == 50_000
    assert one(kept(5_000), replace(late, topic="other")).buffer_ms == 15_000


@pytest.mark.parametrize(
    ("latencies", "measured", "buffer_ms", "text"),
    [
        ([300] * 60, True, 41_000, "west stamps up to 0 s early in 60 samples"),
        ([300, -2_000, *[500] * 70], True, 43_000, "west stamps up to 2 s early in 72 samples"),
        ([300] * 59, False, DEFAULT_MS, "west uses LogAppendTime: 60 samples of its delay are needed, there are 59"),
        (None, False, DEFAULT_MS, "west uses LogAppendTime: 60 samples of its delay are needed, there are 0"),
    ],
)
def test_a_standby_that_stamps_records_itself_counts_with_its_clock(
    latencies: list[int] | None, measured: bool, buffer_ms: int, text: str
) -> None:
    found = one(kept(), latencies={"t": latencies})
    assert (found.measured, found.buffer_ms) == (measured, buffer_ms)
    assert text in found.text


# -- one partition ---------------------------------------------------------------------------------------------------
def wanted(t_ms: int | None, *times: int, topic: str = "t") -> Want:
    return Want(
        source="orders", topic=topic, partition=0, target_topic=topic, offset=len(times), ring=ring(*times),
        ring_offset=len(times), dense=None, begin_known=0, timestamp_ms=t_ms,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("want", "reaches_ms"),
    [
        (wanted(NOW_MS, NOW_MS - 9, NOW_MS), 40_000),
        (wanted(NOW_MS, NOW_MS - 5_000), 45_000),  # read to its end, looked at five seconds after the last record
        (wanted(NOW_MS, NOW_MS - 5 * HOUR_MS), DEFAULT_MS),  # and long after it
        (wanted(NOW_MS), DEFAULT_MS),
        (wanted(NOW_MS + 9 * HOUR_MS, NOW_MS + 9 * HOUR_MS), 9 * HOUR_MS + 40_000),  # ahead of the clock
        (wanted(None, NOW_MS), None),
    ],
)
def test_a_partition_reaches_back_from_what_its_time_may_stand_for(want: Want, reaches_ms: int | None) -> None:
    assert reach(want, 40_000, NOW_MS) == reaches_ms


def test_the_default_never_cuts_a_larger_buffer_short() -> None:
    assert reach(wanted(NOW_MS, NOW_MS - 5 * HOUR_MS), 2 * HOUR_MS, None) == 2 * HOUR_MS
    assert reach(wanted(NOW_MS, NOW_MS - 5_000), 2 * HOUR_MS, None) == 2 * HOUR_MS


def test_only_topics_with_a_buffer_get_one() -> None:
    wants = [wanted(NOW_MS, NOW_MS + 7_000), wanted(NOW_MS, NOW_MS, topic="other")]
    row = position(NOW_MS, source="orders", partition=0)
    first, second = buffered(wants, [one(kept())], [row])
    assert (first.buffer_ms, second) == (41_000, wants[1])
    assert buffered(wants, [], [row]) == tuple(wants)
