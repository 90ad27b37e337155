"""Who may have a runner's name: what counts as proof that the process which had it is gone, and what does not."""

import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from state.model.entities import RunnerFact
from state.settings.keys import Spark
from streaming.process import own_identity
from streaming.spark.errors import NameTaken
from streaming.spark.hosting import Hosting
from streaming.spark.runner import registration
from streaming.spark.runner.registration import STALE_AFTER, NameTakeover, Registration, clear_name
from tests.json_server import attempt_xml, json_server
from tests.kubernetes_api import POD, RUNNING, enter_pod, kubernetes_api, pod, terminated
from tests.memory_store import MemoryStore

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HERE = replace(own_identity(), host=f"{socket.gethostname()}/4026531836/5a3e92c1")
OTHER = RunnerFact(
    runner="a", instance="other", site="one", host="elsewhere", boot_id="b", pid=4711, pid_started=815,
    spark_master="local[4]", application_id=None, warm=False, started_at=NOW, seen_at=NOW,
)  # fmt: skip
DEAD_HERE = replace(OTHER, host=HERE.host, boot_id=HERE.boot_id, pid=HERE.pid, pid_started=HERE.pid_started + 1)
ALIVE_HERE = replace(DEAD_HERE, pid_started=HERE.pid_started)
CONSENT = NameTakeover(actor="ann@office", reason="host one was switched off")


class Clock:
    """A store's clock that a test sets."""

    at = NOW

    def __call__(self) -> datetime:
        return self.at


def store_with(fact: RunnerFact | None, *, silent: timedelta) -> MemoryStore:
    clock = Clock()
    store = MemoryStore(clock)
    if fact is not None:
        assert store.register(fact) is None
    clock.at = NOW + silent
    return store


SILENT = STALE_AFTER + timedelta(hours=5)


def test_a_name_without_a_holder_is_free() -> None:
    assert clear_name(store_with(None, silent=SILENT), "a", HERE) is None
    other = store_with(replace(OTHER, runner="b"), silent=SILENT)
    assert clear_name(other, "a", HERE) is None
    assert len(other.runners()) == 1


@pytest.mark.parametrize("fact", [DEAD_HERE, replace(OTHER, host=HERE.host, boot_id="an earlier boot")])
@pytest.mark.parametrize("silent", [timedelta(0), SILENT])
def test_a_dead_process_of_this_host_loses_its_name_at_once(fact: RunnerFact, silent: timedelta) -> None:
    store = store_with(fact, silent=silent)
    assert clear_name(store, "a", HERE) == fact
    assert store.runners() == []


@pytest.mark.parametrize("silent", [timedelta(0), SILENT])
@pytest.mark.parametrize("consent", [None, CONSENT])
def test_a_live_process_of_this_host_keeps_the_name_however_silent_it_is(
    silent: timedelta, consent: NameTakeover | None
) -> None:
    store = store_with(ALIVE_HERE, silent=silent)
    with pytest.raises(NameTaken, match=f"already running as pid {HERE.pid}") as refused:
        clear_name(store, "a", HERE, consent)
    assert refused.value.hint.startswith("end that process first")
    assert len(store.runners()) == 1


def test_silence_of_another_host_proves_nothing_and_the_refusal_helps() -> None:
    store = store_with(OTHER, silent=SILENT)
    with pytest.raises(NameTaken) as refused:
        clear_name(store, "a", HERE)
    assert "pid 4711 on elsewhere, last seen 2026-03-01 12:00:00 UTC, 18010 s ago" in str(refused.value)
    assert "tideover take-over a --reason" in refused.value.hint
    assert len(store.runners()) == 1
    assert store.history() == []


def test_a_container_of_the_same_host_cannot_be_looked_at() -> None:
    name, namespace = HERE.host.split("/")[:2]
    assert namespace, "the identity tells one pid namespace from another"
    with pytest.raises(NameTaken, match="may still be running"):
        clear_name(store_with(replace(DEAD_HERE, host=f"{name}/1"), silent=SILENT), "a", HERE)


def test_a_consent_is_believed_and_kept_in_the_history() -> None:
    store = store_with(OTHER, silent=SILENT)
    assert clear_name(store, "a", HERE, CONSENT) == OTHER
    assert store.runners() == []
    (event,) = store.history()
    assert (event.kind, event.actor) == ("take-over", "ann@office")
    assert event.text.endswith("named a, pid 4711 on elsewhere, has ended: host one was switched off")
    assert event.detail["instance"] == "other"


def test_a_consent_counts_for_nothing_while_the_heart_beats() -> None:
    store = store_with(OTHER, silent=STALE_AFTER - timedelta(milliseconds=1))
    with pytest.raises(NameTaken, match="already running as pid 4711 on elsewhere"):
        clear_name(store, "a", HERE, CONSENT)
    assert store.history() == []


def test_a_heartbeat_from_a_time_to_come_is_of_before_the_clock_was_set_back() -> None:
    store = store_with(OTHER, silent=-timedelta(minutes=40))
    with pytest.raises(NameTaken, match="2400 s ago: its host cannot be checked"):
        clear_name(store, "a", HERE, None)
    assert clear_name(store, "a", HERE, CONSENT) == OTHER


def test_a_jvm_that_cannot_be_killed_keeps_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_ORPHAN_SECONDS", 0.05)
    monkeypatch.setattr(registration, "orphans", lambda _: [99])
    store = store_with(DEAD_HERE, silent=SILENT)
    with pytest.raises(NameTaken, match="cannot be killed"):
        clear_name(store, "a", HERE)
    assert len(store.runners()) == 1


ATTEMPT = "appattempt_1_0007_000001"
ON_YARN = replace(OTHER, spark_master="yarn", application_id=ATTEMPT)


def yarn_says(state: str, code: int) -> dict[str, object]:
    seen = f"AM Container for {ATTEMPT} exited with  exitCode: {code}"
    path = f"ws/v1/cluster/apps/application_1_0007/appattempts/{ATTEMPT}"
    return {path: attempt_xml(state, seen)}


@pytest.mark.parametrize("silent", [timedelta(0), SILENT])
def test_the_end_of_an_attempt_on_yarn_frees_the_name_at_once(silent: timedelta) -> None:
    store = store_with(ON_YARN, silent=silent)
    with json_server(**yarn_says("FAILED", 137)) as yarn:
        assert clear_name(store, "a", HERE, None, Spark(master_ui=yarn.url)) == ON_YARN
    assert store.runners() == []


@pytest.mark.parametrize(
    ("fact", "state", "code", "seen"),
    [
        (ON_YARN, "RUNNING", 137, f"; YARN says that {ATTEMPT} is RUNNING"),
        (ON_YARN, "FAILED", -100, f"; YARN says that {ATTEMPT} is FAILED, and does not give its node"),
        (replace(ON_YARN, application_id="application_1_0007"), "FAILED", 137, "checked from here"),
        (replace(ON_YARN, spark_master="local[4]"), "FAILED", 137, "checked from here"),
    ],
)
def test_a_name_stays_taken_where_yarn_proves_no_end(fact: RunnerFact, state: str, code: int, seen: str) -> None:
    """A lost node, and a driver outside of YARN, may run on."""
    store = store_with(fact, silent=SILENT)
    with json_server(**yarn_says(state, code)) as yarn, pytest.raises(NameTaken) as taken:
        clear_name(store, "a", HERE, None, Spark(master_ui=yarn.url))
    assert str(taken.value).endswith(seen)
    assert len(store.runners()) == 1


IN_POD = replace(OTHER, spark_master="k8s://https://kubernetes.default.svc", pod=POD)


def test_the_end_of_a_pod_frees_the_name_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kubernetes_api(tmp_path) as api:
        enter_pod(api, tmp_path / "account", monkeypatch)
        api.has(pod("Failed", terminated()))
        for silent in (timedelta(0), SILENT):
            store = store_with(IN_POD, silent=silent)
            assert clear_name(store, "a", HERE, None, Spark()) == IN_POD
            assert store.runners() == []


def test_a_name_stays_taken_where_kubernetes_proves_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with(IN_POD, silent=SILENT)
    with kubernetes_api(tmp_path) as api:
        enter_pod(api, tmp_path / "account", monkeypatch)
        api.has(pod("Failed", RUNNING))
        with pytest.raises(NameTaken, match="its node has not seen the end of container") as taken:
            clear_name(store, "a", HERE, None, Spark())
    assert 'tideover take-over a --reason "why"' in taken.value.hint
    assert store.runners() != []


def test_without_an_address_of_yarn_the_refusal_names_the_setting() -> None:
    with pytest.raises(NameTaken, match=r"spark\.master_ui is not set"):
        clear_name(store_with(ON_YARN, silent=SILENT), "a", HERE, None, Spark())


def hosting(store: MemoryStore, instance: str) -> Hosting:
    settings = SimpleNamespace(runners={"a": SimpleNamespace(site="one")})
    return cast(
        Hosting,
        SimpleNamespace(
            store=store, settings=settings, runner="a", instance=instance, here=HERE, spark_master="local[4]",
            application_id="app", pod=POD, companion=True, companion_missing="", now=lambda: NOW,
        ),
    )  # fmt: skip


def test_a_process_whose_name_was_taken_learns_it_at_its_next_heartbeat() -> None:
    store = store_with(None, silent=timedelta(0))
    cut_off, next_one = Registration(hosting(store, "one")), Registration(hosting(store, "two"))
    cut_off.renew()
    with pytest.raises(NameTaken):
        next_one.renew()
    store.unregister("a", "one")
    next_one.renew()
    assert [(fact.companion, fact.pod) for fact in store.runners()] == [(True, POD)], "it says what and where it is"
    with pytest.raises(NameTaken):
        cut_off.renew()
    cut_off.give_back()
    assert [fact.instance for fact in store.runners()] == ["two"], "it gives back what is its own only"


def test_an_older_registration_of_a_restored_store_ends_no_process() -> None:
    """The runner was restarted after the backup, on whichever host: the backup knows the process before it."""
    clock = Clock()
    store = MemoryStore(clock)
    former, ours = Registration(hosting(store, "one")), Registration(hosting(store, "two"))
    former.renew()
    put_back = store.back_up()
    former.give_back()
    clock.at = NOW + timedelta(hours=1)
    ours.renew()
    put_back()
    clock.at = NOW + timedelta(hours=2)
    ours.renew()
    assert [fact.instance for fact in store.runners()] == ["two"]
    with pytest.raises(NameTaken):
        former.renew()


@pytest.mark.parametrize(
    ("neighbour", "kept"),
    [
        (DEAD_HERE, False),
        (replace(DEAD_HERE, boot_id="an earlier boot"), False),
        (ALIVE_HERE, True),
        (OTHER, True),
        (replace(DEAD_HERE, spark_master="spark://one:7077"), True),
    ],
    ids=["dead here", "of before the boot", "alive here", "elsewhere", "with executors elsewhere"],
)
def test_a_dead_neighbour_loses_its_name_and_a_possible_writer_keeps_it(neighbour: RunnerFact, kept: bool) -> None:
    neighbour = replace(neighbour, runner="b")
    store = store_with(neighbour, silent=timedelta(0))
    ours = Registration(hosting(store, "ours"))
    ours.renew()
    ours.clear_dead()
    assert {fact.instance for fact in store.runners()} == ({"ours", "other"} if kept else {"ours"})


def test_a_dead_neighbour_whose_jvm_lives_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_NEIGHBOUR_SECONDS", 0.05)
    monkeypatch.setattr(registration, "orphans", lambda _: [99])
    store = store_with(replace(DEAD_HERE, runner="b"), silent=timedelta(0))
    Registration(hosting(store, "ours")).clear_dead()
    assert len(store.runners()) == 1
