"""What is said of a cluster none of whose brokers answers."""

import pytest

from state.settings.keys import Cluster
from streaming.errors import ClusterUnreachable
from streaming.kafka.link import Link
from tests.ports import free_port


def test_a_broker_that_is_known_twice_is_named_once() -> None:
    address = f"127.0.0.1:{free_port()}"
    cluster = Cluster.model_validate({"bootstrap": [address, address]})
    with Link(cluster, name="east") as link, pytest.raises(ClusterUnreachable) as refused:
        link.describe(["orders"], timeout=1.0)
    assert str(refused.value).count(address) == 1
