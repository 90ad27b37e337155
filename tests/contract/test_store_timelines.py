"""What every store promises about timelines; memory, SQLite and PostgreSQL alike."""

from datetime import UTC, datetime, timedelta

import pytest

from state.errors import StaleTerm
from state.model.timeline import NO_TIME, Moment, SourcePartition, Steps, Stretch
from state.store.controller_store import ControllerStore
from tests.contract.samples import term_of

DAY, HOUR, MINUTE, MILLISECOND = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1), timedelta(milliseconds=1)
LANES = (SourcePartition("orders", "orders", 0), SourcePartition("orders", "orders", 1))
NOW_MS = int(datetime.now(UTC).timestamp()) * 1000
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)


def stretch(
    ago: timedelta, *, steps: int = 2, query: str = "revenue", epoch: int = 1, cluster: str = "east", offset: int = 100
) -> Stretch:
    """So many minutes in a row, from so long ago."""
    begin = NOW_MS - ago // MILLISECOND
    moments = [
        Moment(begin + 60_000 * step, (offset + step, 2 * offset + step), (begin, NO_TIME), (0, 0))
        for step in range(steps)
    ]
    return Stretch.of(query, epoch, cluster, LANES, moments, precision_ms=1)


def save(store: ControllerStore, *stretches: Stretch) -> None:
    for each in stretches:
        store.save_timeline(each, keep=DAY)


def test_a_stretch_is_found_again_as_it_was_saved(store: ControllerStore) -> None:
    one = stretch(HOUR)
    save(store, one)
    assert store.timeline("revenue") == [one]
    begin = NOW_MS - HOUR // MILLISECOND
    assert store.timeline("revenue")[0].steps() == Steps(
        LANES,
        (
            Moment(begin, (100, 200), (begin, NO_TIME), (0, 0)),
            Moment(begin + 60_000, (101, 201), (begin, NO_TIME), (0, 0)),
        ),
    )
    assert store.timeline("late") == []


def test_the_same_steps_twice_are_the_same_steps_once(store: ControllerStore) -> None:
    one = stretch(HOUR)
    save(store, one, one)
    assert store.timeline("revenue") == [one]


def test_a_stretch_grows_and_what_comes_late_does_not_cut_it_short(store: ControllerStore) -> None:
    short, long = stretch(HOUR, steps=2), stretch(HOUR, steps=5)
    save(store, short, long)
    assert store.timeline("revenue") == [long]
    save(store, short)
    assert store.timeline("revenue") == [long]


def test_offsets_of_two_clusters_and_of_two_epochs_stay_apart(store: ControllerStore) -> None:
    rows = [stretch(HOUR), stretch(HOUR, cluster="west", offset=7), stretch(HOUR, epoch=2, cluster="west", offset=9)]
    save(store, *reversed(rows))
    assert store.timeline("revenue") == rows


def test_where_a_query_was_follows_from_the_last_stretch_that_had_begun(store: ControllerStore) -> None:
    first, second = stretch(3 * HOUR), stretch(2 * HOUR)
    save(store, first, second, stretch(HOUR, query="late"))
    assert store.timeline_at("revenue", NOW - 4 * HOUR) is None
    assert store.timeline_at("revenue", NOW - 3 * HOUR) == first
    assert store.timeline_at("revenue", NOW - 2 * HOUR - MILLISECOND) == first, "it stood where the stretch ended"
    assert store.timeline_at("revenue", NOW - 2 * HOUR) == second
    assert store.timeline_at("revenue", NOW + DAY) == second


def test_a_runner_that_continued_after_the_move_writes_no_timeline(store: ControllerStore) -> None:
    before, after, straggler = stretch(3 * HOUR), stretch(2 * HOUR, epoch=2, cluster="west"), stretch(HOUR)
    save(store, before, after, straggler)
    assert store.timeline_at("revenue", NOW - 2 * HOUR - MINUTE) == before
    assert store.timeline_at("revenue", NOW) == after


def test_only_what_reaches_a_time_is_read(store: ControllerStore) -> None:
    rows = [stretch(3 * HOUR), stretch(2 * HOUR), stretch(HOUR)]
    save(store, *rows)
    assert store.timeline("revenue", since=rows[1].until) == rows[1:]
    assert store.timeline("revenue", since=rows[1].until + MILLISECOND) == rows[2:]


def test_saving_forgets_what_is_older_than_is_kept_but_of_no_other_query(store: ControllerStore) -> None:
    other, old, young = stretch(3 * HOUR, query="late"), stretch(3 * HOUR), stretch(MINUTE)
    save(store, other, old, young)
    store.save_timeline(young, keep=2 * HOUR)
    assert (store.timeline("revenue"), store.timeline("late")) == ([young], [other])
    with pytest.raises(ValueError, match="holds nothing"):
        store.save_timeline(young, keep=timedelta(0))


def test_the_number_of_stretches_is_bounded(store: ControllerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state.store.sql.history.KEPT_STRETCHES", 2)
    rows = [stretch(timedelta(hours=hours)) for hours in (5, 4, 3, 2)]
    save(store, stretch(6 * HOUR, query="late"), *rows)
    assert store.timeline("revenue") == rows[2:]
    assert len(store.timeline("late")) == 1


def test_timelines_of_removed_queries_are_pruned_in_bounded_rounds(store: ControllerStore) -> None:
    term = term_of(store)
    rows = [stretch(timedelta(hours=hours), query=f"q{hours}") for hours in (5, 4, 3, 1)]
    save(store, *rows)
    assert store.prune_timelines(NOW - 2 * HOUR, limit=2, term=term) == 2
    assert [len(store.timeline(row.query)) for row in rows] == [0, 0, 1, 1]
    assert store.prune_timelines(NOW - 2 * HOUR, limit=2, term=term) == 1
    assert store.prune_timelines(NOW - 2 * HOUR, limit=2, term=term) == 0
    with pytest.raises(StaleTerm):
        store.prune_timelines(NOW - HOUR, limit=2, term=term + 1)
    with pytest.raises(ValueError, match="is not over"):
        store.prune_timelines(NOW + HOUR, limit=2, term=term)
    assert store.timeline("q1") == [rows[3]]
