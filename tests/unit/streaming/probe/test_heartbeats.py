"""The replicator as a witness: what a heartbeat that arrived proves, and what it does not."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from state.model.cluster_status import Fault, Layer, ProbeReport
from state.model.entities import TopicPartition
from state.settings.keys import Detection
from streaming.clocks import Clocks
from streaming.cluster_log import Fetched, PartitionError
from streaming.probe.heartbeats import HeartbeatLimits, Heartbeats, ReplicatedHeartbeats
from tests.memory_log import MemoryCluster
from tests.sights import START, at
from tests.waiting import until

QUICK = Detection.model_validate({"interval": "50ms", "timeout": "300ms"})
TOPIC = "east.heartbeats"


def ms(seconds: float) -> int:
    return int(at(seconds).timestamp() * 1000)


def carried(*found: tuple[float, float | None]) -> ReplicatedHeartbeats:
    """Each: when the topic was read, and the time of the newest heartbeat that was found."""
    state = ReplicatedHeartbeats(patience=HeartbeatLimits(heartbeat=0.5, reading=2.0))
    for when, newest in found:
        state = state.found(None if newest is None else ms(newest), began=when, ended=when)
    return state


@pytest.mark.parametrize(
    ("found", "alive_at"),
    [
        (((0, None), (1, None)), None),
        (((10, 9.5), (10.5, 9.5)), None),  # it may be as old as it likes: we did not see it come
        (((10, 9.5), (10.5, 10.3)), 10.3),
        (((10, 9.5), (10.5, 10.3), (11, 10.3)), 10.3),
        (((10, None), (10.5, 10.3)), 10.3),
        (((10, 14.5), (10.5, 15.3)), 10.5),  # the replicator's clock is five seconds ahead
        (((10, 9.5), (60, 59.5)), None),  # no one looked for 50 s
        (((10, 9.5), (60, 59.5), (60.5, 60.4)), 60.4),
    ],
)
def test_a_heartbeat_counts_from_its_time_or_from_when_it_was_seen(
    found: tuple[tuple[float, float | None], ...], alive_at: float | None
) -> None:
    assert carried(*found).alive_at(at) == (None if alive_at is None else at(alive_at))


def test_a_target_that_cannot_be_read_takes_no_evidence_away_and_adds_none() -> None:
    state = carried((10, 9.5), (10.5, 10.3)).missed("west: no answer", Fault.THEIRS, 11.0)
    assert state.alive_at(at) == at(10.3)
    assert (state.misses, state.fault) == (1, Fault.THEIRS)
    assert state.found(ms(10.3), began=11.5, ended=11.5).misses == 0


@pytest.mark.parametrize(
    ("found", "overdue"),
    [
        (((10, 9.9),), None),  # we did not see it come
        (((10, 9.9), (10.5, 9.9), (11, 10.9)), 12.5),  # no gap is known: one second and the patience of a half
        (((10, 9.9), (11, 10.9), (12, 11.9)), 13.5),
        (((10, 9.9), (11, 10.9), (12, 11.6), (13, 12.9)), 14.8),  # the longest gap counts
        (((10, 7.9), (11, 8.9), (12, 9.9)), 13.5),  # the replicator's clock is two seconds behind
        (((10, 9.9), (10.5, 10.1), (11, 60.9), (11.5, 61.2)), 12.5),  # it was set ahead
        (((10, 9.9), (10.5, 10.1), (11, 5.9), (11.5, 6.2)), 12.5),  # it was set back
        (((10, 4), (11, 7), (12, 7), (13, 7), (14, 10)), None),  # too rare to be waited for
        (((10, 9.9), (11, 10.9), (12, 11.9), (60, 59.9)), None),  # no one looked for 48 s
    ],
)
def test_a_heartbeat_is_due_one_usual_interval_after_the_last(
    found: tuple[tuple[float, float | None], ...], overdue: float | None
) -> None:
    state = carried(*found)
    assert state.overdue == (None if overdue is None else pytest.approx(overdue))
    assert state.due == (None if overdue is None else pytest.approx(overdue + 2.0)), "nobody has looked since"
    if overdue is not None:
        seen = state.found(state.newest_ms, began=overdue - 0.1, ended=overdue + 0.1)
        assert seen.due == pytest.approx(overdue + 2.0), "that reading began too early"
        assert seen.missed("west: no answer", Fault.THEIRS, overdue + 0.2).due == pytest.approx(overdue + 2.0)
        assert seen.found(state.newest_ms, began=overdue + 0.1, ended=overdue + 0.2).due == pytest.approx(overdue)


def test_the_heartbeat_topic_is_read_once_one_is_overdue_by_our_clock() -> None:
    west, now = MemoryCluster("west"), [0.0]
    west.create(TOPIC)
    heartbeats = Heartbeats("east", "west", TOPIC, lambda _: west, Detection(), Clocks(monotonic=lambda: now[0]))
    pauses = []
    for when, stamp in ((0.0, 9.0), (1.0, 10.0), (1.7, 4.0)):  # the replicator's clock is set back
        west.append(TOPIC, 0, ms(stamp), bytes(16))
        now[0] = when
        pauses.append(heartbeats.hear())
    now[0] = 2.7
    pauses.append(heartbeats.hear())
    assert pauses == pytest.approx([0.5, 0.5, 0.5, 0.2])
    seen = heartbeats.probe_report("1", at)
    assert seen is not None
    assert seen.last_ok_at == at(1.7)
    now[0] = 2.9
    assert heartbeats.hear() == pytest.approx(0.5)
    seen = heartbeats.probe_report("1", at)
    assert seen is not None
    assert seen.due_at is not None
    assert abs(seen.due_at - at(2.9)) < timedelta(milliseconds=1)


def wall(monotonic: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=monotonic - time.monotonic())


def test_new_heartbeats_are_found_on_the_target_and_a_dead_one_is_silent() -> None:
    west = MemoryCluster("west")
    heartbeats = Heartbeats("east", "west", TOPIC, lambda _: west, QUICK)
    heartbeats.begin()

    def await_fact(condition: str) -> None:
        def holds() -> bool:
            seen = heartbeats.probe_report("1", wall)
            facts = {
                "asked": seen is not None,
                "sign of life": seen is not None and seen.last_ok_at is not None,
                "well": seen is not None and seen.fault is None,
                "ill": seen is not None and seen.failures_in_a_row >= 2,
            }
            return facts[condition]

        until(holds, condition)

    try:
        await_fact("ill")
        seen = heartbeats.probe_report("1", wall)
        assert seen is not None
        assert "cannot describe east.heartbeats on west: " in seen.text
        west.create(TOPIC)
        west.append(TOPIC, 0, ms(0), bytes(16))
        await_fact("well")
        seen = heartbeats.probe_report("1", wall)
        assert seen is not None
        assert (seen.cluster, seen.viewpoint, seen.layer) == ("east", "replicator:east->west", Layer.READ)
        assert seen.last_ok_at is None, "what was there before we looked proves nothing"
        west.append(TOPIC, 0, ms(7), bytes(16))
        await_fact("sign of life")
        seen = heartbeats.probe_report("1", wall)
        assert seen is not None
        assert seen.last_ok_at == START + timedelta(seconds=7)
        west.unreachable = True
        await_fact("ill")
        seen = heartbeats.probe_report("1", wall)
        assert seen is not None
        assert seen.last_ok_at == START + timedelta(seconds=7)
    finally:
        heartbeats.close()


@pytest.mark.parametrize(("retriable", "reported"), [(False, "cannot read east.heartbeats on west: no"), (True, "")])
def test_a_denied_heartbeat_topic_is_reported_and_a_leaderless_one_is_not(retriable: bool, reported: str) -> None:
    class Denying(MemoryCluster):
        def fetch(self, starts: Mapping[TopicPartition, object], **_: Any) -> Mapping[TopicPartition, Fetched]:
            error = PartitionError(name="DENIED", text="no", retriable=retriable)
            nothing = Fetched(records=(), next_offset=0, high_watermark=None, log_start=None, error=error)
            return dict.fromkeys(starts, nothing)

    west = Denying("west")
    west.create(TOPIC)
    west.append(TOPIC, 0, ms(0), bytes(16))
    heartbeats = Heartbeats("east", "west", TOPIC, lambda _: west, QUICK)
    heartbeats.begin()
    try:
        until(lambda: heartbeats.probe_report("1", wall) is not None)
        seen = heartbeats.probe_report("1", wall)
        assert seen is not None
        assert (seen.text, seen.last_ok_at) == (reported, None)
    finally:
        heartbeats.close()


def test_a_defect_of_ours_is_logged_once_and_leaves_the_witness_in_place() -> None:
    west, broken = MemoryCluster("west"), [True]
    west.create(TOPIC)

    def open_log(_: str) -> MemoryCluster:
        if broken:
            raise ZeroDivisionError("a defect")
        return west

    heartbeats = Heartbeats("east", "west", TOPIC, open_log, QUICK)

    def seen(ill: bool) -> ProbeReport:
        found: list[ProbeReport] = []

        def is_so() -> bool:
            now = heartbeats.probe_report("1", wall)
            found[:] = [] if now is None else [now]
            return now is not None and now.failures_in_a_row >= 3 * ill and (now.fault is not None) is ill

        until(is_so)
        return found[0]

    with capture_logs() as logs:
        heartbeats.begin()
        try:
            found = seen(ill=True)
            assert (found.fault, found.kind, found.last_ok_at) == (Fault.HERE, "internal", None)
            assert found.text == "reading failed: ZeroDivisionError: a defect"
            broken.clear()
            assert seen(ill=False).layer is Layer.READ
        finally:
            heartbeats.close()
    (line,) = logs
    assert (line["event"], line["log_level"], line["exc_info"]) == ("heartbeats cannot be read", "error", True)
