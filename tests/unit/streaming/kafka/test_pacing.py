"""New connections to a cluster that limits them: spread, probes first, and a wait for a turn is no silence."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from state.model.cluster_status import Fault
from state.settings.keys import Cluster
from state.settings.security import Security
from streaming.clocks import Deadline
from streaming.errors import ClusterUnreachable
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.connections import metadata_request
from streaming.kafka.link import Link
from streaming.kafka.network import BrokerRequest, Network
from streaming.kafka.pacing import Lane, Pacer, Turns, pacer_of
from streaming.kafka.probe import Probe
from streaming.kafka.security import Credentials, library_settings
from tests.fakecluster import FakeCluster


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 6}) as fake:
        yield fake


def test_no_second_has_more_than_the_limit() -> None:
    turns, now, opened = Turns(gap=0.25), 0.0, list[float]()
    while now < 10.0:
        wait = turns.wait(Lane.LOOK_UP, now)
        if not wait:
            opened.append(now)
            turns = turns.opened(Lane.LOOK_UP, now)
        now += wait or 0.001
    assert len(opened) >= 39
    assert max(sum(start <= at < start + 1.0 for at in opened) for start in opened) <= 4


def test_a_lane_holds_up_those_below_it_and_none_above() -> None:
    free = Turns(gap=0.5)
    starts, look_up, probe = (
        free.opened(Lane.START, 10.0, 8),
        free.opened(Lane.LOOK_UP, 10.0),
        free.opened(Lane.PROBE, 10.0),
    )
    waits = [[turns.wait(lane, 10.0) for lane in Lane] for turns in (starts, look_up, probe)]
    assert waits == [[0.0, 0.0, 4.0], [0.0, 0.5, 0.5], [0.5, 0.5, 0.5]]


def test_an_hour_of_probes_of_a_dead_cluster_leaves_no_debt() -> None:
    """Three addresses, each half second: more than the limit."""
    turns, now, looked_up = Turns(gap=0.25), 0.0, 0
    while now < 3600.0:
        for _ in range(3):
            turns = turns.opened(Lane.PROBE, now)
        for at in (now + 0.3, now + 0.45):
            if at > 3000.0 and not turns.wait(Lane.LOOK_UP, at):
                turns, looked_up = turns.opened(Lane.LOOK_UP, at), looked_up + 1
        now += 0.5
    assert max(turns.wait(lane, now) for lane in Lane) <= 1.0
    assert looked_up == 1200, "half of the time is of the lanes below, also while probes open more than is allowed"


def test_a_probe_is_spread_and_never_later_than_its_share() -> None:
    assert Turns(gap=0.1).spread(0.0, 3, within=0.5) == pytest.approx([0.0, 0.1, 0.2])
    crowded = Turns(gap=1.0).spread(0.0, 6, within=0.5)
    assert crowded == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    behind = Turns(gap=1.0).opened(Lane.PROBE, 0.0, 5).spread(0.0, 1, within=0.5)
    assert behind == pytest.approx([0.5]), "what other probes opened holds it up for half of its time at most"


def test_without_a_limit_nothing_waits() -> None:
    pacer = Pacer(None)
    assert [pacer.take(Lane.START, 1000) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert pacer.spread(3, 1.0) == [0.0, 0.0, 0.0]
    assert pacer.room(1.0) is None


def test_starts_of_a_group_follow_one_another_and_look_ups_pass_them() -> None:
    now = [0.0]
    pacer = Pacer(10, lambda: now[0])
    assert pacer.take(Lane.START, 20) == 0.0
    assert pacer.take(Lane.START, 20) == pytest.approx(2.0)
    assert pacer.take(Lane.LOOK_UP) == 0.0
    assert pacer.take(Lane.START, 20) == pytest.approx(2.1), "a look-up takes its turn from the start"
    now[0] = 2.1
    assert pacer.take(Lane.START, 20) == 0.0


def test_all_parts_of_a_process_share_the_turns_of_a_cluster() -> None:
    first, second = (Cluster(bootstrap=("e:1",), connections_per_second=5) for _ in range(2))
    assert pacer_of(first) is pacer_of(second)
    assert pacer_of(first) is not pacer_of(Cluster(bootstrap=("w:1",), connections_per_second=5))


def limited(fake: FakeCluster, per_second: int) -> Cluster:
    return Cluster(bootstrap=fake.bootstrap, connections_per_second=per_second)


def test_look_ups_take_their_turns_and_all_are_answered(fake: FakeCluster) -> None:
    cluster = limited(fake, 20)

    def describe(_: int) -> int:
        with Link(cluster) as link:
            return len(link.describe(["t"], timeout=120.0)["t"].partitions)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(describe, range(8))) == [6] * 8
    assert pacer_of(cluster).take(Lane.LOOK_UP) <= 0.05, "each turn that was taken was used"


def test_a_look_up_whose_turn_is_too_late_says_so_at_once(fake: FakeCluster) -> None:
    cluster = limited(fake, 1)
    pacer = pacer_of(cluster)
    while pacer.take(Lane.LOOK_UP, 100):
        pytest.fail("nothing was opened yet")
    with Link(cluster, name="east") as link, pytest.raises(ClusterUnreachable) as refused:
        link.describe(["t"], timeout=0.5)
    assert "1 a second are allowed (clusters.NAME.connections_per_second)" in str(refused.value)
    assert not fake.requested, "no connection was opened"


def probe_of(cluster: Cluster) -> Probe:
    return Probe(cluster, name="east", topics=["t"], memory=ProbeMemory())


def test_a_probe_passes_look_ups_that_wait(fake: FakeCluster) -> None:
    cluster = limited(fake, 1)
    assert pacer_of(cluster).take(Lane.LOOK_UP, 3600) == 0.0
    probe = probe_of(cluster)
    sight = probe.run(60.0)
    probe.close()
    assert sight.ok
    assert sight.delayed < 60.0


def test_a_wait_for_a_turn_is_not_of_the_time_of_a_probe(fake: FakeCluster) -> None:
    """Each broker has the whole time, from its own turn on; a dead cluster is found out all the same."""
    cluster = limited(fake, 2)
    fake.hung.update((0, 1, 2))
    probe = probe_of(cluster)
    sight = probe.run(1.0)
    probe.close()
    assert sight.trouble is not None
    assert (sight.trouble.kind, sight.trouble.fault) == ("silent", Fault.THEIRS)
    assert 0.0 < sight.delayed <= 0.5
    assert sight.seconds >= 1.0 + sight.delayed


def test_a_probe_opens_no_connection_that_it_does_not_need(fake: FakeCluster) -> None:
    settings = library_settings(Cluster(bootstrap=fake.bootstrap))
    network = Network(settings, Credentials(Security()), pacer=Pacer(0.01), lane=Lane.PROBE)
    winner, _ = network.race([BrokerRequest(node, metadata_request([])) for node in network.nodes], Deadline.after(300))
    network.close()
    assert winner is not None
    assert len({node for node, *_ in fake.requested}) == 1, "it answered before the others had their turn"


def test_threads_never_get_one_turn_twice() -> None:
    pacer, got = Pacer(1, lambda: 0.0), list[float]()
    threads = [threading.Thread(target=lambda: got.append(pacer.take(Lane.LOOK_UP))) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(got) == [0.0] + [1.0] * 15
