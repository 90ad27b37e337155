"""What Prometheus reads: each figure from a real store."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.config.load import load
from orchestrator.facts.status import StatusReader
from orchestrator.http.exported import METRICS
from orchestrator.http.figures import FigureReader
from orchestrator.http.metrics import DURATION, exposition
from orchestrator.lease import NAME, this_process
from state.model.automation import NoticeCursor
from state.model.cluster_status import Verdict
from state.model.entities import OperationKind, Phase, RunState
from state.model.maintenance import PartitionCopy
from state.model.measured import Measured
from state.store.sql import schema
from streaming.clocks import SystemClock
from streaming.pulse import Pulse
from tests.contract import samples
from tests.contract.samples import AT
from tests.memory_store import MemoryStore
from tests.metric_text import parsed
from tests.served import CONFIG

SECOND = timedelta(seconds=1)
CONFIGURED = (
    CONFIG.replace("[east, west]\n    runners", "[east, west]\n    policy: {max_exposure: 30s}\n    runners")
    + """
routes:
  - {from: east, to: west, heartbeats: east.heartbeats}
  - {from: west, to: east}
"""
)


@dataclass
class Shown:
    """A store whose clock we set, and what is reported of it."""

    store: MemoryStore
    reader: FigureReader
    now: list[datetime]
    clock: "SetClock"

    def read(self) -> Mapping[str, float]:
        return parsed(exposition(self.reader.read()))

    def later(self, seconds: float) -> None:
        self.now[0] += seconds * SECOND
        self.clock.at += seconds


@dataclass
class SetClock(SystemClock):
    at: float = 1000.0

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return shown_by(tmp_path, CONFIGURED)


def shown_by(folder: Path, configured: str) -> Shown:
    (folder / "tideover.yaml").write_text(configured, encoding="utf-8")
    settings = load(folder / "tideover.yaml", {"ONCALL": "json://localhost"}).settings
    now, clock = [AT], SetClock()
    store = MemoryStore(lambda: now[0])
    store.lead(NAME, this_process(), timedelta(hours=1))
    pulse = Pulse(file=None, notify_socket=None, turned_at=998.5)
    reader = FigureReader(
        status=lambda: StatusReader(store, settings, clock).read(), store=store, settings=settings, clock=clock,
        pulse=pulse, version="9.9",
    )  # fmt: skip
    return Shown(store, reader, now, clock)


def run_query(store: MemoryStore, **change: object) -> int:
    store.adopt(samples.assignment())
    assert store.report_query(samples.fact(**change))
    return store.leader(NAME).term  # type: ignore[union-attr] # the fixture leads


def over(shown: Shown, name: str, **change: object) -> None:
    """An operation that ends now, as the leader writes it."""
    ended = samples.operation(
        id=name, **{"outcome": "done", "phase": Phase.SETTLED, "ended_at": shown.now[0], **change}
    )
    term = shown.store.leader(NAME).term  # type: ignore[union-attr]
    shown.store.record(ended, term=term, events=[samples.event(operation=name)])


def test_a_calm_world_is_exported_in_numbers(shown: Shown) -> None:
    store = shown.store
    term = run_query(store, dropped_late_rows=4)
    store.save_positions([samples.position(batch=2), samples.position(batch=1)])
    store.save_ends([samples.end(end=20)])
    store.register(samples.runner())
    store.record_status(samples.status(term=term), term=term, event=samples.event())
    store.save_probe_reports([samples.probe_report(viewpoint="replicator:east->west", last_ok_at=AT - 2 * SECOND)])
    shown.later(3)
    metrics_text = shown.read()
    expected = {
        'tideover_build_info{version="9.9"}': 1,
        "tideover_loop_turn_age_seconds": 4.5,
        "tideover_leader": 1,
        "tideover_term": term,
        'tideover_cluster_verdict{cluster="east",verdict="UP"}': 1,
        'tideover_cluster_verdict{cluster="east",verdict="DOWN"}': 0,
        'tideover_cluster_verdict{cluster="west",verdict="UNKNOWN"}': 1,
        'tideover_replication_heartbeat_age_seconds{source="east",target="west"}': 5,
        'tideover_replication_heartbeat_expected{source="east",target="west"}': 1,
        'tideover_runner_seen_age_seconds{runner="a"}': 3,
        'tideover_runner_warm{runner="a"}': 1,
        'tideover_query_epoch{query="revenue"}': 1,
        'tideover_query_reported_epoch{query="revenue"}': 1,
        'tideover_query_active{cluster="east",query="revenue"}': 1,
        'tideover_query_active{cluster="west",query="revenue"}': 0,
        'tideover_query_home{query="revenue"}': 1,
        'tideover_query_state{query="revenue",state="running"}': 1,
        'tideover_query_state{query="revenue",state="failed"}': 0,
        'tideover_query_automatic{query="revenue",state="off"}': 1,
        'tideover_query_progress_age_seconds{query="revenue"}': 3,
        'tideover_query_lag_records{query="revenue"}': 8,
        'tideover_query_batch{query="revenue"}': 3,
        'tideover_query_tracked_batch{query="revenue"}': 2,
        'tideover_query_dropped_late_rows{query="revenue"}': 4,
        'tideover_exposure_limit_seconds{query="revenue"}': 30,
    }
    assert {name: metrics_text.get(name) for name in expected} == expected
    assert not [
        name for name in metrics_text if name.startswith(("tideover_replication", "tideover_exp")) and "west->" in name
    ]
    assert 'tideover_replication_heartbeat_expected{source="west",target="east"}' not in metrics_text


def test_readiness_and_exposure_are_exported_while_the_sample_is_young(shown: Shown) -> None:
    term = run_query(shown.store)
    gates = ({"name": "replication-lag", "ok": False}, {"name": "assigned", "ok": True})
    copies = (
        PartitionCopy("orders", 0, "orders", 5_000, 4_000, 1_000, 3, 6_000, ""),
        PartitionCopy("orders", 1, "orders", 5_000, 2_500, 2_500, 4, 6_000, ""),
    )
    sample = samples.replication(copies=copies)
    shown.store.keep_readiness(
        samples.readiness(gates=gates), term=term, event=samples.event(), replication=sample
    )  # fmt: skip
    metrics_text = shown.read()
    assert metrics_text['tideover_ready{gate="replication-lag",query="revenue"}'] == 0
    assert metrics_text['tideover_ready{gate="assigned",query="revenue"}'] == 1
    assert metrics_text['tideover_unproven_resume_offsets{query="revenue"}'] == 1, "3 of 4 are proven"
    assert metrics_text['tideover_exposure_records{query="revenue"}'] == 7
    assert metrics_text['tideover_exposure_seconds{query="revenue"}'] == 2.5
    shown.later(301)
    assert not [
        name for name in shown.read() if name.startswith(("tideover_ready", "tideover_exposure_s", "tideover_unp"))
    ]


def test_a_number_that_is_not_known_is_left_out(shown: Shown) -> None:
    term = run_query(shown.store, batch=None, progressed_at=None, offsets=None)
    fact = samples.readiness(proven=None, partitions=None)
    shown.store.keep_readiness(fact, term=term, event=samples.event(), replication=samples.replication())
    metrics_text = shown.read()
    assert 'tideover_unproven_resume_offsets{query="revenue"}' not in metrics_text
    unknown = ("batch", "tracked_batch", "progress_age_seconds", "lag_records", "dropped_late_rows")
    assert {f'tideover_query_{each}{{query="revenue"}}' for each in unknown} & metrics_text.keys() == set()
    assert 'tideover_exposure_records{query="revenue"}' not in metrics_text
    assert metrics_text['tideover_exposure_seconds{query="revenue"}'] == 1
    assert 'tideover_replication_heartbeat_age_seconds{source="east",target="west"}' not in metrics_text
    assert metrics_text['tideover_replication_heartbeat_expected{source="east",target="west"}'] == 1


def test_a_sample_of_where_the_query_was_says_nothing_of_now(shown: Shown) -> None:
    term = run_query(shown.store)
    sample = samples.replication(source="west", target="east")
    shown.store.keep_readiness(samples.readiness(), term=term, event=samples.event(), replication=sample)
    assert 'tideover_exposure_seconds{query="revenue"}' not in shown.read()


def test_a_verdict_that_is_not_renewed_is_unknown(shown: Shown) -> None:
    term = shown.store.leader(NAME).term  # type: ignore[union-attr]
    down = samples.status(term=term, verdict=Verdict.DOWN)
    shown.store.record_status(down, term=term, event=samples.event())
    assert shown.read()['tideover_cluster_verdict{cluster="east",verdict="DOWN"}'] == 1
    shown.later(60)
    metrics_text = shown.read()
    assert metrics_text['tideover_cluster_verdict{cluster="east",verdict="DOWN"}'] == 0
    assert metrics_text['tideover_cluster_verdict{cluster="east",verdict="UNKNOWN"}'] == 1


def test_positions_of_another_place_do_not_count_as_tracked(shown: Shown) -> None:
    run_query(shown.store)
    shown.store.save_positions([samples.position(epoch=1, batch=9)])
    moved = samples.assignment(epoch=2, placed_epoch=2, cluster="west")
    shown.store.force(schema.assignments, moved)
    assert 'tideover_query_tracked_batch{query="revenue"}' not in shown.read()
    shown.store.save_positions([samples.position(epoch=2, batch=4)])
    assert shown.read()['tideover_query_tracked_batch{query="revenue"}'] == 4


def test_an_open_operation_is_exported_with_its_phase(shown: Shown) -> None:
    store = shown.store
    store.adopt(samples.assignment())
    term = store.leader(NAME).term  # type: ignore[union-attr]
    assert store.hold(
        samples.operation(phase=Phase.BLOCKED), from_epoch=1, term=term, step=samples.step(), event=samples.event()
    )
    shown.later(90)
    assert shown.read()['tideover_operation_open_seconds{kind="failover",phase="BLOCKED",query="revenue"}'] == 90


def test_an_operation_that_awaits_a_start_has_a_phase_of_its_own(shown: Shown) -> None:
    store = shown.store
    store.adopt(samples.assignment())
    term = store.leader(NAME).term  # type: ignore[union-attr]
    waiting = samples.operation(phase=Phase.BLOCKED, sentence="awaits the next start of shop, which does not run now")
    assert store.hold(waiting, from_epoch=1, term=term, step=samples.step(), event=samples.event())
    found = shown.read()
    assert 'tideover_operation_open_seconds{kind="failover",phase="AWAITS_START",query="revenue"}' in found
    assert 'tideover_operation_open_seconds{kind="failover",phase="BLOCKED",query="revenue"}' not in found


def test_only_operations_that_end_from_now_on_count_and_each_once(shown: Shown) -> None:
    over(shown, "before")
    done, refused = (f'tideover_operations_total{{kind="failover",result="{each}"}}' for each in ("done", "refused"))
    assert (shown.read()[done], shown.read()[refused]) == (0, 0)
    shown.later(4)
    over(shown, "op-2", measured=Measured(exposure_records=5, replay_records=2))
    over(shown, "op-3", outcome="refused", query="sums")
    for _ in range(2):
        metrics_text = shown.read()
        assert (metrics_text[done], metrics_text[refused]) == (1, 1)
        assert metrics_text['tideover_lost_records_total{query="revenue"}'] == 5
        assert metrics_text['tideover_repeated_records_total{query="revenue"}'] == 2
        assert metrics_text[f'{DURATION}_count{{kind="failover",result="done"}}'] == 1
        assert metrics_text[f'{DURATION}_sum{{kind="failover",result="done"}}'] == 4
        assert metrics_text[f'{DURATION}_bucket{{kind="failover",le="3",result="done"}}'] == 0
        assert metrics_text[f'{DURATION}_bucket{{kind="failover",le="5",result="done"}}'] == 1
        shown.later(61)


def test_records_measured_later_are_added_and_never_taken_away(shown: Shown) -> None:
    lost = 'tideover_lost_records_total{query="revenue"}'
    shown.read()
    over(shown, "op-2")
    assert shown.read()[lost] == 0
    measured = samples.operation(id="op-2", outcome="done", phase=Phase.SETTLED, ended_at=AT)
    term = shown.store.leader(NAME).term  # type: ignore[union-attr]
    for number, expected in ((7, 7), (3, 7), (9, 9)):
        shown.store.record(replace(measured, measured=Measured(exposure_records=number)), term=term)
        shown.later(61)
        assert shown.read()[lost] == expected


def test_the_last_drill_that_succeeded_is_exported(shown: Shown) -> None:
    name = 'tideover_drill_last_success_timestamp_seconds{query="revenue"}'
    assert name not in shown.read()
    over(shown, "drill-1", kind=OperationKind.DRILL)
    assert shown.read()[name] == AT.timestamp()
    shown.later(60)
    over(shown, "drill-2", kind=OperationKind.DRILL, outcome="failed")
    assert shown.read()[name] == AT.timestamp()
    assert 'tideover_lost_records_total{query="revenue"}' not in shown.read()


def test_each_state_that_a_runner_reports_has_its_row(shown: Shown) -> None:
    run_query(shown.store)
    metrics_text = shown.read()
    states = {name for name in metrics_text if name.startswith('tideover_query_state{query="revenue"')}
    assert sum(metrics_text[name] for name in states) == 1
    assert len(states) == len(RunState) + 5, "and never-run, stuck, held, waiting, silent"


def test_a_receiver_that_takes_no_notices_is_exported(tmp_path: Path) -> None:
    receiver = 'notify: {targets: [{name: oncall, url: "env:ONCALL"}]}'
    shown = shown_by(tmp_path, f"{CONFIGURED}{receiver}\n")
    term = shown.store.leader(NAME).term  # type: ignore[union-attr]
    cursor = NoticeCursor(target="oncall", sequence=1, incidents={}, failures=3, failing_since=AT, error="503")
    for each in (cursor, replace(cursor, target="former")):
        shown.store.keep_notice_cursor(each, term=term)
    metrics_text = shown.read()
    assert metrics_text['tideover_notification_failures_total{target="oncall"}'] == 3
    assert metrics_text['tideover_notification_failing{target="oncall"}'] == 1
    shown.store.keep_notice_cursor(replace(cursor, failing_since=None), term=term)
    assert shown.read()['tideover_notification_failing{target="oncall"}'] == 0
    assert 'tideover_notification_failing{target="former"}' not in metrics_text


def test_every_name_is_exported_once(shown: Shown) -> None:
    names = [each.name for each in METRICS]
    assert len(names) == len(set(names))
    assert all(name.startswith("tideover_") for name in names)
    assert all(each.is_counter == each.name.endswith("_total") for each in METRICS)


@pytest.mark.parametrize(
    ("state", "epoch", "reported"),
    [
        (RunState.AWAITED, 1, None),
        (RunState.STOPPED, 1, None),
        (RunState.RUNNING, 1, 1.0),
        (RunState.AWAITED, 2, 2.0),
        (RunState.STOPPED, 5, 5.0),
    ],
)
def test_an_older_epoch_is_reported_only_of_what_runs(
    shown: Shown, state: RunState, epoch: int, reported: float | None
) -> None:
    term = run_query(shown.store)
    held = samples.operation(query="revenue", epoch=2, phase=Phase.FENCING, outcome=None, ended_at=None)
    step, event = samples.step(operation=held.id, sequence=1), samples.event(operation=held.id)
    assert shown.store.hold(held, from_epoch=1, term=term, step=step, event=event) is not None
    assert shown.store.report_query(samples.fact(state=state, epoch=epoch))
    assert shown.read().get('tideover_query_reported_epoch{query="revenue"}') == reported
