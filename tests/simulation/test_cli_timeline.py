"""``timeline``: where a query was at which time, from the store alone."""

from datetime import UTC, datetime, timedelta

import pytest

from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch
from state.store.sql.store import SqlStore
from tests.simulation.test_cli import run, run_json
from tests.simulation.test_cli_programs import keys, said
from tests.simulation.world import World

LANES = (SourcePartition("orders", "clicks", 0), SourcePartition("orders", "orders", 0))
MINUTE = 60_000
HOUR = 60 * MINUTE


@pytest.fixture(autouse=True)
def began_ms(world: World) -> int:
    """An hour ago three minutes on east, half an hour ago one step on west; no broker gets a request for it."""
    began_ms = int(datetime.now(UTC).timestamp()) * 1000 - HOUR
    for log in world.clusters.values():
        log.reachable = False
    east = [
        Moment(began_ms, (10, 100), (NO_TIME, began_ms - 5), (0, 0)),
        Moment(began_ms + MINUTE, (10, 200), (NO_TIME, began_ms + MINUTE - 5), (0, 30)),
        Moment(began_ms + 2 * MINUTE, (10, 300), (NO_TIME, began_ms - 20_000), (0, 0)),
    ]
    west = [Moment(began_ms + 30 * MINUTE, (7, 777), (NO_TIME, began_ms + 30 * MINUTE), (0, 0))]
    for epoch, cluster, moments in ((1, "east", east), (2, "west", west)):
        stretch = Stretch.of("revenue", epoch, cluster, LANES, moments, precision_ms=1)
        world.store.save_timeline(stretch, keep=timedelta(days=1))
    return began_ms


def standing(capsys: pytest.CaptureFixture[str], time_ms: int) -> list[tuple[object, ...]]:
    code, rows = run_json(capsys, "timeline", "revenue", "--at", str(time_ms), "--topic", "orders")
    assert code == 0
    assert isinstance(rows, list)
    return [(row["cluster"], row["epoch"], row["offset"]) for row in rows]


def test_the_answer_is_the_last_step_that_is_not_after_the_time(
    capsys: pytest.CaptureFixture[str], began_ms: int
) -> None:
    assert standing(capsys, began_ms - 1) == []
    assert standing(capsys, began_ms) == [("east", 1, 100)]
    assert standing(capsys, began_ms + 2 * MINUTE - 1) == [("east", 1, 200)]
    assert standing(capsys, began_ms + 29 * MINUTE) == [("east", 1, 300)], "it stood there"
    assert standing(capsys, began_ms + HOUR) == [("west", 2, 777)], "offsets of the cluster where it was then"


def test_two_hours_ago_is_by_the_clock_that_stamped_the_timeline(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqlStore, "now", lambda self: datetime.now(UTC) + timedelta(hours=1))
    code, rows = run_json(capsys, "timeline", "revenue", "--at", "-105m", "--topic", "orders")
    assert code == 0
    assert isinstance(rows, list)
    assert [row["offset"] for row in rows] == [300], "45 minutes ago by this host's clock"


def test_timeline_without_a_time_shows_ranges_and_disorder_per_partition(
    capsys: pytest.CaptureFixture[str], began_ms: int
) -> None:
    code, rows = run_json(capsys, "timeline", "revenue", "--topic", "orders")
    assert code == 0
    assert isinstance(rows, list)
    reported = [(row["cluster"], row["steps"], row["first_offset"], row["offset"], row["disorder_ms"]) for row in rows]
    assert reported == [("east", 3, 100, 300, MINUTE - 5 + 20_000), ("west", 1, 777, 777, 0)]
    assert rows[0]["timestamp_ms"] == began_ms + MINUTE - 5, "the largest"
    _, rows = run_json(capsys, "timeline", "revenue", "--partition", "0", "--topic", "clicks")
    assert isinstance(rows, list)
    assert [(row["timestamp_ms"], row["disorder_ms"]) for row in rows] == [(None, None), (None, None)]


def test_every_step_is_shown_in_the_order_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "timeline", "revenue", "--topic", "orders", "--steps", "-o", "tsv")
    assert code == 0
    head, *lines = out.splitlines()
    rows = [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]
    assert [row["offset"] for row in rows] == ["100", "200", "300", "777"]
    assert [row["disorder_ms"] for row in rows] == ["0", "30", "0", "0"]
    _, rows_since = run_json(capsys, "timeline", "revenue", "--steps", "--since", "-45m")
    assert isinstance(rows_since, list)
    assert {row["cluster"] for row in rows_since} == {"west"}


def test_nothing_known_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, talk = run(capsys, "timeline", "revenue", "--at", "-20h", "-o", "json")
    assert (code, out) == (0, "[]\n")
    assert talk == "the store has no position of revenue at that time\n"


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("nope",), "query 'nope' is not declared"),
        (("revenue", "--at", "-5"), "is not a time"),
        (("revenue", "--at", "-2h", "--steps"), "--at cannot be combined"),
        (("revenue", "--at", "-2h", "--since", "-3h"), "--at cannot be combined"),
    ],
)
def test_timeline_refuses_bad_questions(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reported: str
) -> None:
    code, _, talk = run(capsys, "timeline", *arguments)
    assert code == 2
    assert reported in talk


def test_the_page_for_programs_names_the_keys(capsys: pytest.CaptureFixture[str], began_ms: int) -> None:
    assert keys(run_json(capsys, "timeline", "revenue")[1]) == said("`timeline`: an array")
    stepwise = said("With `--at` or `--steps`")
    assert keys(run_json(capsys, "timeline", "revenue", "--at", str(began_ms + HOUR))[1]) == stepwise
    assert keys(run_json(capsys, "timeline", "revenue", "--steps")[1]) == stepwise
