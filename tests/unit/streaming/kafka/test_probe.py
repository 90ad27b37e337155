"""The layered look, against brokers made of sockets: what is a dead cluster, what a limping one, and whose fault."""

import errno
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka import errors

from state.model.cluster_status import Fault, Layer
from state.settings.keys import Cluster, Tideover
from state.settings.security import Security
from streaming.kafka import probe as module
from streaming.kafka.cluster_state import ProbeMemory, state_of_cluster
from streaming.kafka.errors import summed, trouble_of
from streaming.kafka.probe import Probe
from streaming.probe.identities import Identities
from streaming.probe.probe_result import ProbeFailure, ProbeResult
from tests.contract import samples
from tests.fakecluster import FakeCluster, silent_server
from tests.memory_store import MemoryStore

NOT_AUTHORIZED, STORAGE_ERROR = 29, 56
EAST, WEST = samples.EAST_ID, samples.OTHER_ID


@pytest.fixture(autouse=True)
def limits_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine also a broker that answers takes longer than a probe in use would wait for a detail."""
    monkeypatch.setattr(module, "_LIMITS_PATIENCE_SECONDS", 30.0)


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 6}) as fake:
        yield fake


class Watcher:
    """Probes of one cluster, made again as a prober makes them."""

    def __init__(self, *bootstrap: str, topics: tuple[str, ...] = ("t",), **security: Any) -> None:
        self.cluster = Cluster(bootstrap=bootstrap, security=Security.model_validate(security))
        self.topics = topics
        self.memory = ProbeMemory()
        self.identities = Identities(
            Tideover.model_validate({"store": "sqlite://", "clusters": {"east": self.cluster}})
        )
        self.probe = self.fresh()

    def fresh(self) -> Probe:
        self.probe = Probe(
            self.cluster, name="east", topics=self.topics, memory=self.memory, identify=self.identities.of("east")
        )
        return self.probe

    def run(self, timeout: float = 30.0) -> ProbeResult:
        return self.probe.run(timeout)


@pytest.fixture
def watcher(fake: FakeCluster) -> Iterator[Watcher]:
    watcher = Watcher(*fake.bootstrap)
    yield watcher
    watcher.probe.close()
    assert watcher.probe.is_over


def test_every_layer_answers_with_its_time_and_the_connection_is_kept(watcher: Watcher) -> None:
    first, second = watcher.run(), watcher.run()
    layers = [Layer.TCP, Layer.SECURITY, Layer.METADATA, Layer.LEADERS, Layer.READ]
    for sight, kept in ((first, []), (second, [Layer.TCP, Layer.SECURITY, Layer.LEADERS])):
        assert sight.ok
        assert [each.layer for each in sight.passed] == layers
        assert [each.layer for each in sight.passed if each.kept] == kept
        assert sight.latency_ms is not None
        assert 0 < sight.latency_ms <= sight.seconds * 1000
    health = second.health
    assert health is not None
    assert (health.brokers, health.partitions) == (3, 6)
    assert not any((health.brokers_silent, health.leaderless, health.unreadable, health.under_replicated))
    assert health.under_min_isr == 0


def test_a_hung_server_does_not_hold_a_look_up(fake: FakeCluster) -> None:
    with silent_server() as hung:
        watcher = Watcher(hung, *fake.bootstrap)
        sight = watcher.run(60.0)
        assert sight.ok
        assert sight.seconds < 30, "nobody waits for the server that hangs"
        watcher.probe.close()


def test_one_of_three_that_refuses_or_falls_silent_is_a_cluster_that_limps(fake: FakeCluster, watcher: Watcher) -> None:
    assert watcher.run().ok
    fake.hung.add(1)
    for sight in (watcher.run(3.0), watcher.run(3.0), watcher.fresh().run(3.0)):
        assert sight.ok, sight.trouble
        assert sight.health is not None
        assert (sight.health.brokers_silent, sight.health.unreadable) == (1, 2)
        assert sight.seconds < 2.9, "a silent broker may not take all the time"
    fake.hung.clear()
    fake.kill(1)
    for _ in range(2):
        sight = watcher.run()
        assert sight.ok, sight.trouble
        assert sight.health is not None
        assert (sight.health.brokers_silent, sight.health.unreadable) == (1, 2)


def test_two_lost_brokers_of_three_fail_a_probe_only_if_nothing_is_readable(fake: FakeCluster) -> None:
    limping, blind = Watcher(*fake.bootstrap), Watcher(*fake.bootstrap, topics=("one",))
    fake.topics["one"] = 2  # led by brokers 0 and 1
    for node in (0, 1):
        fake.kill(node)
    assert limping.run().ok, "broker 2 still leads two partitions"
    sight = blind.run()
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault, sight.layer) == ("refused", Fault.THEIRS, Layer.LEADERS)
    limping.probe.close()
    blind.probe.close()


def test_a_killed_cluster_is_refused_at_once(fake: FakeCluster, watcher: Watcher) -> None:
    assert watcher.run().ok
    for node in fake.ports:
        fake.kill(node)
    for probe in (watcher.probe, watcher.fresh()):
        sight = probe.run(30.0)
        assert sight.trouble is not None
        assert (sight.trouble.kind, sight.trouble.fault, sight.trouble.retriable) == ("refused", Fault.THEIRS, True)
        assert sight.seconds < 15, "a refusal is not waited for"
        probe.close()


def test_a_frozen_cluster_is_silent_for_the_whole_time_and_no_longer(fake: FakeCluster, watcher: Watcher) -> None:
    assert watcher.run().ok
    fake.hung.update(fake.ports)
    for probe in (watcher.probe, watcher.fresh()):
        sight = probe.run(0.6)
        assert sight.trouble is not None
        assert (sight.trouble.kind, sight.trouble.fault, sight.layer) == ("silent", Fault.THEIRS, Layer.TCP)
        assert 0.6 <= sight.seconds < 30, "it does not wait as long as the server is silent"
        probe.close()
    fake.hung.clear()
    assert watcher.fresh().run(30.0).ok


@pytest.mark.parametrize("brokers", [1, 3])
def test_kept_connections_that_are_stuck_are_replaced_within_the_same_look(brokers: int) -> None:
    with FakeCluster({"t": 6}, brokers=brokers) as fake:
        watcher = Watcher(*fake.bootstrap)
        assert watcher.run().ok
        fake.deafen()
        sight = watcher.run(3.0)
        assert sight.ok, sight.trouble
        assert sight.health is not None
        assert (sight.health.brokers_silent, sight.health.unreadable) == (0, 0)
        assert 1.0 <= sight.seconds < 3.0
        assert not any(each.kept for each in sight.passed if each.layer is Layer.TCP)
        watcher.probe.close()


def test_an_idle_topic_and_a_missing_one_are_no_ailment(fake: FakeCluster) -> None:
    fake.records = 0
    watcher = Watcher(*fake.bootstrap, topics=("t", "nowhere"))
    sight = watcher.run()
    assert sight.ok
    assert sight.layer is Layer.READ
    assert sight.text == "topic nowhere does not exist"
    assert fake.created == []
    watcher.probe.close()


def test_leaderless_and_under_replicated_partitions_are_counted(fake: FakeCluster) -> None:
    fake.leaderless = {("t", 0), ("t", 1)}
    fake.lagging = {2}
    fake.min_in_sync = 3
    fake.errors[("t", 5)] = STORAGE_ERROR
    watcher = Watcher(*fake.bootstrap)
    sight = watcher.run()
    assert sight.ok
    assert sight.health is not None
    assert (sight.health.leaderless, sight.health.under_replicated, sight.health.under_min_isr) == (2, 6, 6)
    assert sight.health.unreadable == 1
    watcher.probe.close()


def test_a_leader_that_has_moved_is_found_at_the_next_look(fake: FakeCluster, watcher: Watcher) -> None:
    assert watcher.run().ok
    fake.not_leader[("t", 3)] = 1
    sight = watcher.run()
    assert sight.health is not None
    assert sight.health.unreadable == 0, "its old leader lives"
    requests = sum(1 for _, key, _ in fake.requested if key == 3)
    assert watcher.run().ok
    assert sum(1 for _, key, _ in fake.requested if key == 3) > requests + 1, "the chart is drawn anew"


def charted(partitions: int) -> ProbeMemory:
    """A cluster whose chart was drawn at 100 on the monotonic clock."""
    return ProbeMemory(chart=replace(state_of_cluster([], [1], {}, heard_at=100.0), partitions=partitions))


@pytest.mark.parametrize(
    ("partitions", "well", "stale"), [(6, 5.0, 0.003), (1000, 8.0, 0.5), (3500, 28.0, 1.75), (100_000, 30.0, 30.0)]
)
def test_a_wider_cluster_keeps_its_metadata_longer_and_costs_no_more(
    partitions: int, well: float, stale: float
) -> None:
    memory = charted(partitions)
    for memory.is_stale, seconds in ((False, well), (True, stale)):
        assert memory.standing_chart(100.0 + seconds * 1.01) is None
        assert memory.standing_chart(100.0 + seconds * 0.99) is memory.chart
    assert ProbeMemory().standing_chart(100.0) is None


def test_a_topic_that_we_may_not_read_is_ours_to_mend(fake: FakeCluster, watcher: Watcher) -> None:
    fake.errors[("t", 0)] = NOT_AUTHORIZED
    sight = watcher.run()
    assert sight.trouble == ProbeFailure(
        kind="permission", text="our user has no ACL that allows Describe on topic t", fault=Fault.OURS, retriable=False
    )  # fmt: skip


def test_last_words_before_a_hang_up_are_heard_and_a_stranger_is_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        watcher = Watcher(f"127.0.0.1:{server.getsockname()[1]}")
        server.settimeout(5)

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        sight = watcher.run()
        thread.join()
        watcher.probe.close()
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault) == ("protocol", Fault.OURS)


def test_a_certificate_that_cannot_be_loaded_is_ours_to_mend(fake: FakeCluster, tmp_path: object) -> None:
    watcher = Watcher(*fake.bootstrap, protocol="SSL", ca=f"{tmp_path}/nowhere.pem")
    sight = watcher.run()
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault, sight.trouble.retriable) == ("credential", Fault.OURS, False)


def caused(cause: BaseException) -> errors.KafkaConnectionError:
    error = errors.KafkaConnectionError("no connection")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("outcome", "answered", "kind", "fault", "retriable"),
    [
        (None, True, "silent", Fault.THEIRS, True),
        (errors.KafkaTimeoutError(), True, "silent", Fault.THEIRS, True),
        (errors.RequestTimedOutError(), True, "silent", Fault.THEIRS, True),
        (caused(OSError(errno.ECONNREFUSED, "")), True, "refused", Fault.THEIRS, True),
        (caused(OSError(errno.EHOSTUNREACH, "")), True, "unreachable", Fault.THEIRS, True),
        (ConnectionResetError(errno.ECONNRESET, "reset"), True, "reset", Fault.THEIRS, True),
        (errors.KafkaConnectionError("closed"), True, "reset", Fault.THEIRS, True),
        (errors.KafkaConnectionError("closed"), False, "protocol", Fault.OURS, True),
        (ConnectionResetError(errno.ECONNRESET, "reset"), False, "protocol", Fault.OURS, True),
        (caused(OSError(errno.ENETUNREACH, "")), True, "network", Fault.HERE, True),
        (caused(OSError(errno.EPERM, "")), True, "firewall", Fault.HERE, True),
        (caused(OSError(errno.EMFILE, "")), True, "files", Fault.HERE, True),
        (caused(socket.gaierror(socket.EAI_NONAME, "")), False, "name", Fault.OURS, False),
        (caused(socket.gaierror(socket.EAI_NONAME, "")), True, "name", Fault.THEIRS, True),
        (caused(socket.gaierror(socket.EAI_AGAIN, "")), True, "resolver", Fault.HERE, True),
        (errors.SaslAuthenticationFailedError("no"), True, "credential", Fault.OURS, False),
        (errors.KafkaConnectionError(ssl.SSLError("CERTIFICATE_VERIFY_FAILED")), True, "credential", Fault.OURS, False),
        (errors.KafkaConnectionError(ssl.SSLError(1, "broken record")), True, "reset", Fault.THEIRS, True),
        (errors.KafkaConnectionError(ssl.SSLEOFError(8, "EOF")), False, "protocol", Fault.OURS, True),
        (errors.ClusterAuthorizationFailedError(), True, "permission", Fault.OURS, False),
        (errors.InvalidReceiveError("Invalid frame length"), True, "protocol", Fault.OURS, False),
        (errors.UnsupportedVersionError("old"), True, "version", Fault.OURS, False),
        (errors.UnknownError(), True, "error", Fault.THEIRS, False),
    ],
)
def test_whose_fault_it_is(outcome: object, answered: bool, kind: str, fault: Fault, retriable: bool) -> None:
    trouble = trouble_of(outcome, "broker:9092", answered_before=answered)
    assert (trouble.kind, trouble.fault, trouble.retriable) == (kind, fault, retriable)
    assert "broker:9092" in trouble.text


def test_a_refusal_means_alive_and_dead_outweighs_untried() -> None:
    refused = trouble_of(caused(OSError(errno.ECONNREFUSED, "")), "a:1", answered_before=True)
    credential = trouble_of(errors.SaslAuthenticationFailedError("no"), "b:1", answered_before=True)
    mistyped = trouble_of(caused(socket.gaierror(socket.EAI_NONAME, "")), "c:1", answered_before=False)
    offline = trouble_of(caused(OSError(errno.ENETUNREACH, "")), "d:1", answered_before=True)
    assert summed([refused, credential, offline]).kind == "credential"
    assert summed([mistyped, offline, refused]).kind == "refused"
    strange = trouble_of(errors.KafkaConnectionError("closed"), "e:1", answered_before=False)
    assert summed([strange, refused]).kind == "protocol"
    assert summed([offline, mistyped]).kind == "name"
    assert summed([offline]).fault is Fault.HERE


@pytest.mark.parametrize("kept", [True, False], ids=["on the connection that is open", "on new connections"])
def test_another_cluster_under_the_name_is_our_mistake_and_never_down(
    fake: FakeCluster, watcher: Watcher, kept: bool
) -> None:
    assert watcher.run().cluster_id == "fake"
    fake.cluster_id = "other"
    if not kept:
        fake.hang_up()
    for _ in range(2):
        sight = watcher.run()
        assert sight.trouble is not None
        assert (sight.trouble.kind, sight.trouble.fault, sight.trouble.retriable) == ("identity", Fault.OURS, False)
        assert (sight.cluster_id, sight.health) == ("other", None)
        assert sight.text == "east leads to cluster other, but led to cluster fake before"
    fake.cluster_id = "fake"
    watcher.fresh()
    assert watcher.run().ok


def behind_endpoint(fake: FakeCluster, name: str) -> Watcher:
    """Looks at one of two clusters behind an endpoint of these servers."""
    settings = Tideover.model_validate(
        {"store": "sqlite://", "clusters": {"dr": {"bootstrap": fake.bootstrap, "ids": {"east": EAST, "west": WEST}}}}
    )
    watcher = Watcher(*fake.bootstrap)
    watcher.cluster, watcher.identities = settings.clusters[name], Identities(settings)
    watcher.probe.close()
    watcher.probe = Probe(
        watcher.cluster, name=name, topics=("t",), memory=watcher.memory, identify=watcher.identities.of(name)
    )
    return watcher


def test_an_endpoint_that_leads_elsewhere_is_no_fault_of_the_cluster(fake: FakeCluster) -> None:
    fake.cluster_id = WEST
    with closing(behind_endpoint(fake, "east").probe) as probe:
        sight = probe.run(30.0)
        assert sight.trouble is not None
        assert (sight.trouble.kind, sight.trouble.fault, sight.trouble.retriable) == ("not-here", Fault.HERE, True)
        assert (sight.cluster_id, sight.text) == (
            WEST, f"endpoint dr leads to west now, cluster {WEST}, and not to east",
        )  # fmt: skip
        fake.cluster_id = EAST
        assert probe.run(30.0).ok


def test_a_silent_endpoint_is_no_silence_of_the_other_cluster(fake: FakeCluster) -> None:
    fake.cluster_id = WEST
    watchers = {name: behind_endpoint(fake, name) for name in ("east", "west")}
    for watcher in watchers.values():
        watcher.run()
    for node in fake.ports:
        fake.kill(node)
    away, dead = watchers["east"].run(3.0).trouble, watchers["west"].run(3.0).trouble
    assert away is not None
    assert dead is not None
    assert (away.kind, away.fault, dead.fault) == ("not-here", Fault.HERE, Fault.THEIRS)
    assert "it does not answer" in away.text
    for watcher in watchers.values():
        watcher.probe.close()


def test_the_trouble_of_a_cluster_to_which_the_endpoint_came_back_is_its_own(fake: FakeCluster) -> None:
    fake.cluster_id, fake.topics["t"] = WEST, 2  # led by brokers 0 and 1
    watcher = behind_endpoint(fake, "east")
    with closing(watcher.probe) as probe:
        away = probe.run(30.0)
        fake.cluster_id = EAST
        for node in (0, 1):
            fake.kill(node)
        back = probe.run(30.0)
        assert away.trouble is not None
        assert back.trouble is not None
        assert (away.trouble.kind, away.cluster_id) == ("not-here", WEST)
        assert (back.trouble.kind, back.trouble.fault, back.cluster_id) == ("refused", Fault.THEIRS, EAST)


def test_an_endpoint_that_hangs_up_as_it_turns_is_no_mistake_of_ours(fake: FakeCluster) -> None:
    fake.cluster_id = WEST
    watcher = behind_endpoint(fake, "east")
    watcher.run()
    watcher.probe.close()
    closed = errors.KafkaConnectionError("closed")
    turning = trouble_of(closed, "dr:1", answered_before=watcher.memory.answered)
    assert (turning.kind, turning.fault) == ("reset", Fault.THEIRS)
    assert turning.or_elsewhere(watcher.memory.elsewhere).kind == "not-here"


def test_a_connection_behind_an_endpoint_is_kept_for_seconds_only(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kept connection to a broker's own address does not show that the endpoint leads elsewhere."""
    fake.cluster_id = EAST
    watcher = behind_endpoint(fake, "east")
    with closing(watcher.probe):
        assert watcher.run().ok
        kept = watcher.probe._network
        assert watcher.run().ok
        assert watcher.probe._network is kept
        monkeypatch.setattr(module, "_ENDPOINT_SECONDS", 0.0)
        assert watcher.run().ok
        assert watcher.probe._network is not kept


@pytest.mark.parametrize("kept", [True, False], ids=["on the connection that is open", "on new connections"])
def test_a_cluster_that_was_accepted_under_the_name_is_up_at_the_next_look(
    fake: FakeCluster, watcher: Watcher, kept: bool
) -> None:
    store = MemoryStore(lambda: datetime(2026, 3, 1, tzinfo=UTC))
    assert watcher.run().ok
    watcher.identities.keep(store, actor="controller:one")
    fake.cluster_id = "other"
    if not kept:
        fake.hang_up()
    assert not watcher.run().ok
    assert not watcher.fresh().run(30.0).ok
    store.replace_pin("east", former="fake", new="other", event=samples.event())
    assert not watcher.run().ok, "nobody has read the pin again"
    watcher.identities.keep(store, actor="controller:one")
    for sight in (watcher.run(), watcher.run(), watcher.fresh().run(30.0)):
        assert (sight.text, sight.cluster_id) == ("", "other")
    fake.cluster_id = "fake"
    assert watcher.run().text.startswith("east leads to cluster fake, but was cluster other until now")


def test_a_leader_of_another_cluster_is_no_leader_of_ours(fake: FakeCluster, watcher: Watcher) -> None:
    assert watcher.run().ok
    home = str(watcher.probe._home)
    fake.strangers = {node for node in fake.ports if not home.endswith(str(node))}
    fake.hang_up(*fake.strangers)
    sight = watcher.run()
    assert sight.trouble is not None
    assert sight.trouble.kind == "identity"
    assert (sight.layer, sight.cluster_id) == (Layer.LEADERS, "other")
