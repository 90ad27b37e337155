"""A broker that limits new connections: a burst of look-ups fills its queue, and paced ones leave room for a probe."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from state.model.cluster_status import Fault
from state.settings.keys import Cluster
from streaming.kafka.cluster_state import ProbeMemory
from streaming.kafka.link import Link
from streaming.kafka.probe import Probe
from streaming.probe.probe_result import ProbeResult
from tests.broker import running_broker
from tests.waiting import until

pytestmark = pytest.mark.real

LIMIT = 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    with running_broker(
        tmp_path, settings={"listener.name.plaintext.max.connection.creation.rate": str(LIMIT)}
    ) as address:
        yield address


def look(cluster: Cluster, timeout: float) -> ProbeResult:
    probe = Probe(cluster, name="east", topics=[], memory=ProbeMemory())
    try:
        return probe.run(timeout)
    finally:
        probe.close()


def test_a_burst_of_look_ups_delays_a_probe_and_paced_ones_do_not(broker: str) -> None:
    free, paced = (Cluster(bootstrap=(broker,), connections_per_second=limit) for limit in (None, LIMIT - 1))
    assert look(paced, 60.0).ok
    with ThreadPoolExecutor(8) as pool, ExitStack() as links:
        known = [links.enter_context(Link(paced)) for _ in range(8)]
        names = [pool.submit(link.names, timeout=60.0) for link in known]
        seen = look(paced, 10.0)
        assert seen.ok, seen.text
        assert all(isinstance(each.result(), frozenset) for each in names)
    seen_in_bursts: list[ProbeResult] = []

    def is_crowded_out() -> bool:
        """Whether a probe failed in a burst; one that comes before the others of it does not."""
        seen_in_bursts.append(crowded(free))
        return seen_in_bursts[-1].trouble is not None

    until(is_crowded_out, "the limit of this broker cannot be reached, so it is not the pace that kept below it")
    assert seen_in_bursts[-1].trouble is not None
    assert seen_in_bursts[-1].trouble.fault is Fault.THEIRS


def crowded(cluster: Cluster) -> ProbeResult:
    """What a probe sees beside sixty look-ups at once."""
    with ThreadPoolExecutor(60) as pool, ExitStack() as links:
        known = [links.enter_context(Link(cluster)) for _ in range(60)]
        names = [pool.submit(link.names, timeout=1.0) for link in known]
        seen = look(cluster, 1.0)
        for each in names:
            each.exception()
    return seen
