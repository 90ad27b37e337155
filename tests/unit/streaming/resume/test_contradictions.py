"""No answer of a cluster is believed against another one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from state.model.entities import TopicPartition
from state.settings.keys import MethodName
from streaming.cluster_log import LogRecord, OffsetAnswer, Spec
from streaming.resume.contradictions import Snapshot, contradictions, doubted
from tests.unit.streaming.standby import (
    T0,
    Slot,
    Standby,
    copied,
    digest,
    one,
    rules,
    sample,
    shows,
    standby,
    stream,
    want,
)

KEY = TopicPartition("orders", 0)
NO_RECORD = OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None)


def at(offset: int, time: int) -> OffsetAnswer:
    return OffsetAnswer(offset=offset, timestamp_ms=time, leader_epoch=0)


def log(*rows: tuple[int, int]) -> tuple[LogRecord, ...]:
    return tuple(LogRecord(offset, time, digest(str(offset)), append_time=False) for offset, time in rows)


RECORDS = log((3, 30), (4, 40), (5, 50))
AGREED = Snapshot(
    begin=0, end=6, visible=6, newest=at(5, 50), times={40: at(4, 40), 60: NO_RECORD}, records=RECORDS, read_from=3,
    read_to=6,
)  # fmt: skip


def test_answers_that_agree_contradict_nothing() -> None:
    assert contradictions(AGREED) == ()


@pytest.mark.parametrize(
    ("changed", "about", "text"),
    [
        ({"begin": 7}, Spec.EARLIEST, "begins at 7, after its end at 6"),
        ({"begin": 4}, Spec.EARLIEST, "begins at 4, but the record at 3 was read"),
        ({"visible": 9}, Spec.LATEST, "last stable offset is 9, after the end at 6"),
        ({"newest": at(4, 40)}, Spec.MAX_TIMESTAMP, "largest timestamp is 40, but the record at 5 has 50"),
        ({"newest": at(5, 70)}, Spec.MAX_TIMESTAMP, "the record there has 50, not 70"),
        ({"newest": at(3, 45), "records": ()}, 60, ""),
        ({"newest": at(3, 65), "records": ()}, 60, "no record is as new as 60, but the largest timestamp is 65"),
        ({"times": {40: at(5, 50)}}, 40, "no record before 5 is as new as 40, but the record at 4 has 40"),
        ({"times": {40: NO_RECORD}, "newest": None}, 40, "no record is as new as 40, but the record at 4 has 40"),
        ({"times": {45: at(5, 44)}}, 45, "but its own time is 44"),
        ({"times": {45: at(5, 49)}}, 45, "the record there has 50, not 49"),
        ({"times": {20: at(1, 20)}, "begin": 2}, 20, "before the log's begin at 2"),
        ({"times": {10: at(2, 40), 20: at(1, 20)}, "records": ()}, 10, "is after the first one of 20"),
        ({"times": {10: at(2, 60)}, "records": ()}, Spec.MAX_TIMESTAMP, "but the record at 2 has 60"),
    ],
)  # fmt: skip
def test_each_contradiction_names_the_answer_and_what_speaks_against_it(
    changed: Mapping[str, Any], about: int, text: str
) -> None:
    assert text in doubted(replace(AGREED, **changed), int(about))


def test_the_marker_of_a_transaction_at_an_answer_contradicts_nothing() -> None:
    marked = replace(AGREED, records=log((0, 10), (1, 20), (3, 40)), read_from=0, read_to=4, times={30: at(2, 30)})
    assert contradictions(marked) == ()


def test_records_that_came_after_the_end_was_looked_up_contradict_nothing() -> None:
    grown = replace(AGREED, newest=at(9, 90), times={60: NO_RECORD, 40: at(4, 40)})
    assert contradictions(grown) == ()


@dataclass
class Liar(Standby):
    """Answers look-ups by time so many records too late, with the time there; None: that there is no record."""

    late: int | None = 0
    below: int = 10**18
    """Only for times below that."""

    def _look(self, key: TopicPartition, time: int, committed: bool) -> OffsetAnswer:
        true = super()._look(key, time, committed)
        if time < 0 or time >= self.below or true.offset is None:
            return true
        if self.late is None:
            return NO_RECORD
        later = [record for record in self.slots[key].answers if record.offset >= true.offset + self.late]
        return at(later[0].offset, later[0].timestamp_ms) if later else NO_RECORD


def liar(slot: Slot, late: int | None, **more: Any) -> Liar:
    return Liar({KEY: slot}, late=late, **more)


LATE = [1, 20, 60, 500, None]


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("buffer_ms", [0, 50, 900_000])
def test_a_look_up_by_time_that_is_too_late_skips_nothing(late: int | None, buffer_ms: int) -> None:
    old = stream(0, 300)
    by_time = want([], offset=150, timestamp_ms=T0 + 1_490)
    target = one(liar(Slot(copied(old, 1000)), late), by_time, rules(MethodName.TIMESTAMP, buffer_ms=buffer_ms))
    shows(target, target_offset=1000 + max(0, 149 - buffer_ms // 10), method="timestamp")


@pytest.mark.parametrize("late", LATE)
def test_the_place_by_content_is_the_same_behind_a_wrong_bound(late: int | None) -> None:
    old = stream(0, 300)
    shows(one(liar(Slot(copied(old, 1000)), late), want(old[:150])), target_offset=1150, exact=True)


@pytest.mark.parametrize("late", LATE)
def test_a_wrong_bound_shows_no_lag_and_no_second_copy_as_the_first(late: int | None) -> None:
    old = stream(0, 300)
    here = copied([*old[:200], *old[100:150]])
    target = one(liar(Slot(here), late), want(old[:150]), None, sample(300, old[-1][1]))
    shows(target, target_offset=150, method="exact", replay_records=50)


def test_a_time_that_cannot_be_found_again_is_refused_with_the_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.resolve.answer_checks.SEARCHED", 20)
    old = [(i, T0, f"r{i}") for i in range(300)]
    target = one(liar(Slot(old), 100), want([], offset=150, timestamp_ms=T0), rules(MethodName.TIMESTAMP))
    shows(target, target_offset=None, error="CONTRADICTION")
    assert "the answers of the standby do not agree" in target.note


class Cut(Standby):
    """A log that was cut right after its end was looked up."""

    def _look(self, key: TopicPartition, time: int, committed: bool) -> OffsetAnswer:
        looked = super()._look(key, time, committed)
        is_first = time == Spec.LATEST and self.requested.count("LATEST") == 1
        return replace(looked, offset=(looked.offset or 0) + 20) if is_first else looked


@pytest.mark.parametrize("policy", [{}, {"on_no_match": "latest"}])
def test_a_place_behind_the_end_of_a_log_that_was_cut_is_refused(policy: dict[str, Any]) -> None:
    """What comes to it later would take the offsets before the place, and be skipped."""
    old = stream(0, 60)
    idle = want([], offset=60, timestamp_ms=T0 + 9_000)
    using = rules(MethodName.EXACT, **policy) if policy else rules(MethodName.TIMESTAMP)
    target = one(Cut({KEY: Slot(copied(old[:40]))}), idle, using)
    shows(target, target_offset=None, error="CONTRADICTION")
    assert "its end went back to 40, before the resume offset 60" in target.note
    shows(one(standby(Slot(copied(old[:40]))), idle, using), target_offset=40, error=None)
