"""What every store promises about probe reports and verdicts; memory, SQLite and PostgreSQL alike."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from state.errors import StaleTerm
from state.model.cluster_status import Fault, Layer, Verdict
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, SECOND, term_of

HOUR = timedelta(hours=1)


def test_probe_reports_come_back_as_reported_one_for_each_observer(store: ControllerStore) -> None:
    refused = samples.probe_report(
        viewpoint="runner:a", layer=Layer.TCP, fault=Fault.THEIRS, kind="silent", text="no answer in 1 s",
        retriable=True, latency_ms=None, brokers=3, brokers_silent=2, partitions=12, leaderless=1, unreadable=4,
        under_replicated=7, under_min_isr=0, failures_in_a_row=2, failed_at=(AT, AT + SECOND), first_failed_at=AT,
        last_ok_at=AT - SECOND,
        cluster_id=samples.EAST_ID, due_at=AT + HOUR, voided_at=AT - HOUR, layers_ms={"tcp": 0.0, "security": 2.125},
    )  # fmt: skip
    unseen = samples.probe_report(cluster="west", layer=None, latency_ms=None)
    store.save_probe_reports([unseen, refused])
    store.save_probe_reports([samples.probe_report()])
    assert store.probe_reports() == [samples.probe_report(), refused, unseen]
    assert store.probe_reports("west") == [unseen]
    assert store.probe_reports("north") == []
    store.save_probe_reports([])


def test_an_older_sighting_never_replaces_a_newer_one(store: ControllerStore) -> None:
    newer = samples.probe_report(seen_at=AT + SECOND, instance="one-2")
    store.save_probe_reports([newer])
    store.save_probe_reports([samples.probe_report()])
    assert store.probe_reports() == [newer]
    same_time = samples.probe_report(seen_at=AT + SECOND, text="again")
    store.save_probe_reports([same_time])
    assert store.probe_reports() == [same_time]


def test_a_sighting_from_before_a_clock_was_set_back_gives_way(store: ControllerStore) -> None:
    store.save_probe_reports([samples.probe_report(seen_at=store.now() + HOUR)])
    now = samples.probe_report(seen_at=store.now())
    store.save_probe_reports([now])
    assert store.probe_reports() == [now]


def test_viewpoints_that_report_at_once_do_not_lock_each_other_out(store: ControllerStore) -> None:
    def report(viewpoint: int) -> None:
        for number in range(5):
            order = 1 if viewpoint % 2 else -1
            clusters = ("east", "west")[::order]
            store.save_probe_reports(
                samples.probe_report(cluster=cluster, viewpoint=f"runner:{viewpoint % 3}", seen_at=AT + number * SECOND)
                for cluster in clusters
            )

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(report, range(6)))
    seen = store.probe_reports()
    assert [(each.cluster, each.viewpoint) for each in seen] == [
        (cluster, f"runner:{number}") for cluster in ("east", "west") for number in range(3)
    ]
    assert {each.seen_at for each in seen} == {AT + 4 * SECOND}


def test_a_verdict_enters_history_only_when_it_changes(
    store: ControllerStore,
) -> None:
    term = term_of(store)
    up = samples.status(term=term)
    assert store.record_status(up, term=term, event=samples.event(text="east is up"))
    later = samples.status(term=term, since=AT + SECOND, decided_at=AT + SECOND, reasons=("so", "and so"), leaderless=2)
    assert not store.record_status(later, term=term, event=samples.event(text="east is up, again"))
    (stored,) = store.cluster_statuses()
    assert (stored.since, stored.decided_at, stored.reasons, stored.leaderless) == (
        AT, AT + SECOND, ("so", "and so"), 2,
    )  # fmt: skip
    down = samples.status(term=term, verdict=Verdict.DOWN, since=AT + 2 * SECOND, first_failed_at=AT + SECOND,
                          down_since=AT + 2 * SECOND)  # fmt: skip
    assert store.record_status(down, term=term, event=samples.event(text="east is down"))
    west = samples.status(term=term, cluster="west", verdict=Verdict.UNKNOWN)
    assert store.record_status(west, term=term, event=samples.event(text="west is unknown"))
    assert store.cluster_statuses() == [down, west]
    assert [event.text for event in store.history()] == ["east is up", "east is down", "west is unknown"]


def test_a_verdict_of_a_stale_term_changes_nothing(store: ControllerStore) -> None:
    stale = term_of(store, "one")
    term = term_of(store, "two")
    with pytest.raises(StaleTerm):
        store.record_status(samples.status(term=stale), term=stale, event=samples.event())
    with pytest.raises(ValueError, match="term"):
        store.record_status(samples.status(term=stale), term=term, event=samples.event())
    assert store.cluster_statuses() == []
    assert store.history() == []
