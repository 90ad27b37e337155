"""Write the tail of a failover into a side topic: ``python -m lab.replay_tail --help``.

FILE is what ``tideover show-op ID --tail -o json`` printed. Records that the standby has got since are left out, and
records that were not committed. Key, value, headers and time are as they were; the partition is chosen again by the
key. The topic must exist. Run twice, it writes everything twice: read the side topic with a query that knows its
records by their ids.
"""

import argparse
import base64
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, and say how many records were acknowledged; exit 1 unless all of them were."""
    parser = argparse.ArgumentParser(prog="python -m lab.replay_tail")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", required=True, help="the side topic, which must exist")
    parser.add_argument("file", type=Path, help="what tideover show-op ID --tail -o json printed")
    chosen = parser.parse_args(arguments)
    tail = json.loads(chosen.file.read_text(encoding="utf-8"))["records"]
    records = [each for each in tail if each.get("committed", True) and not each["on_standby"]]
    settings = {"acks": "all", "enable.idempotence": True, "partitioner": "murmur2_random"}  # as Java's clients choose
    producer = Producer({"bootstrap.servers": chosen.bootstrap, **settings})
    failed: list[object] = []
    for each in records:
        producer.produce(
            chosen.topic,
            key=content(each["key"]),
            value=content(each["value"]),
            headers=[(name, content(value)) for name, value in each["headers"]],
            timestamp=each["timestamp_ms"],
            on_delivery=lambda error, _: failed.append(error) if error is not None else None,
        )
        producer.poll(0)
    written = len(records) - producer.flush(_SECONDS) - len(failed)
    sys.stdout.write(f"{written} of {len(records)} records written to {chosen.topic}\n")
    return 0 if written == len(records) else 1


def content(told: Any) -> bytes | None:
    """Bytes of a key, a value or a header as the report has them."""
    if isinstance(told, dict):
        return base64.b64decode(told["base64"])
    return None if told is None else str(told).encode()


if __name__ == "__main__":
    sys.exit(main())
