"""Records that are written by the lab and by tests: what was refused is reported, though it had an answer."""

import pytest

from lab.delivery import Delivery
from lab.errors import NotDelivered
from tests.ports import free_base_port


def test_records_that_were_refused_are_counted() -> None:
    unreachable = f"127.0.0.1:{free_base_port()}"
    producer = Delivery({"bootstrap.servers": unreachable, "message.timeout.ms": 20, "log_level": 0})
    for _ in range(3):
        producer.produce("orders", b"x", partition=0)
    with pytest.raises(NotDelivered, match=r"^0 records .* 3 were refused: KafkaError.*_MSG_TIMED_OUT"):
        producer.confirm(60)
