"""A query that read nothing where it was placed: what is remembered of the place before, in the new place's offsets."""

from datetime import UTC, datetime
from typing import Any

import pytest

from orchestrator.decide.operation.unread import Arrival, arrival, shifted
from state.messages import CheckpointReport, FenceReport, Offsets, Planned, PrepareReport, PrepareRequest, SinkState
from state.model.entities import Fingerprint, Intent, IntentKind, IntentState, Position
from state.settings.keys import Route

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROUTE = Route.model_validate({"from": "east", "to": "west"})
PREFIXED = Route.model_validate({"from": "east", "to": "west", "topics": {"prefix": "east."}})


def at(*offsets: int, topic: str = "t") -> Offsets:
    return {"s": {topic: {str(number): offset for number, offset in enumerate(offsets)}}}


def row(offset: int, ring: range, partition: int = 0) -> Position:
    return Position(
        query="q", epoch=1, cluster="east", source="s", topic="t", partition=partition, batch=7, offset=offset,
        timestamp_ms=offset * 10, leader_epoch=0, topic_id="i", dense=True, tracked_at=NOW,
        ring=tuple(Fingerprint(number, number * 10, bytes([number])) for number in ring),
    )  # fmt: skip


def arrived(left: Offsets, reached: Offsets, route: Route = ROUTE) -> Arrival:
    return Arrival(route=route, left=left, reached=reached, data_batch=8)


def intent(kind: IntentKind, request: Any, result: Any, *, epoch: int = 2) -> Intent:
    return Intent(
        id=f"o/{kind}/{epoch}", operation="o", name=kind.value, kind=kind, query="q", runner="a", epoch=epoch,
        request=request, state=IntentState.DONE, result=result.as_json(), created_at=NOW, ended_at=NOW,
    )  # fmt: skip


def intents(**request: Any) -> list[Intent]:
    planned = Planned(batch=8, offsets=at(25), sink=SinkState.HAS)
    old = CheckpointReport(checkpoint="/c", batch=7, offsets=at(20), planned=planned)
    new = CheckpointReport(checkpoint="/c2", batch=7, offsets=at(53))
    prepare = PrepareRequest(
        checkpoint="/c", target="/c2", operation="o", epoch=2, resume="carry", batch=7, offsets=at(20),
        target_offsets=at(53), **request,
    )  # fmt: skip
    made = PrepareReport(checkpoint="/c2", data_batch=8, files=1, bytes=1, seconds=0.1)
    fenced = FenceReport(checkpoint=old, planted=(9,), proof=None, detail="")
    again = FenceReport(checkpoint=new, planted=(8,), proof=None, detail="")
    return [
        intent(IntentKind.FENCE, {}, fenced),
        intent(IntentKind.PREPARE, prepare.as_json(), made),
        intent(IntentKind.FENCE, {}, again, epoch=3),
    ]


def test_rows_are_shifted_by_the_distance_of_their_partition() -> None:
    rows = [row(20, range(15, 20)), row(7, range(5, 7), partition=1)]
    first, second = shifted(rows, arrived(at(20, 9), at(53, 6)))
    assert (first.offset, [f.offset for f in first.ring]) == (53, [48, 49, 50, 51, 52])
    assert (second.offset, [f.offset for f in second.ring]) == (4, [2, 3]), "a row that lagged lags as far"
    assert (first.timestamp_ms, first.ring[0].digest) == (200, bytes([15]))


def test_no_ring_seems_to_hold_a_whole_history() -> None:
    (found,) = shifted([row(20, range(10, 20))], arrived(at(20), at(6)))
    assert [f.offset for f in found.ring] == [1, 2, 3, 4, 5]
    assert shifted([row(4, range(4))], arrived(at(20), at(6))) == []


def test_topics_have_their_names_of_the_new_place() -> None:
    (found,) = shifted([row(20, range(15, 20))], arrived(at(20), at(53, topic="east.t"), PREFIXED))
    assert (found.topic, found.offset) == ("east.t", 53)


def test_a_repartitioned_topic_has_no_rows() -> None:
    assert shifted([row(20, range(15, 20))], arrived(at(20), at(53, 1))) == []


def test_an_arrival_is_what_the_move_had_prepared() -> None:
    assert arrival(intents(), ROUTE) == arrived(at(20), at(53))
    assert arrival([], ROUTE) is None


def test_a_promoted_batch_counts_as_read_before_the_move() -> None:
    assert arrival(intents(treatment="promote"), ROUTE) == arrived(at(25), at(53))


@pytest.mark.parametrize(("batch", "unread"), [(7, True), (8, False), (None, True)])
def test_a_place_is_unread_until_its_first_batch_with_data(batch: int | None, unread: bool) -> None:
    report = CheckpointReport(checkpoint="/c2", batch=batch, offsets=at(53))
    assert arrived(at(20), at(53)).is_unread(report) is unread
