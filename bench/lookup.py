"""3,500 partitions looked up by time on one real broker: ours, librdkafka's, and Kafka's own tool.

In the figures, *warm* is the look-up alone, by a client that is connected and knows the leaders. *Cold* is everything
from making the client to closing it (connect, version negotiation, metadata, look-up), in a process that has its
libraries imported. GetOffsetShell is a program, so its figure holds the start of its JVM as well, as it does for its
users. Not in the figures: starting Python, making the broker's page cache warm (every partition is queried once
before), networks (all on loopback), replication, more than one leader.

Each partition holds records around the requested time, so that the broker has to search an index and a log.
Every answer is checked: a wrong one of ours fails the measurement, wrong ones of others are counted.
"""

import os
import re
import subprocess
from collections.abc import Callable

from bench.broker import broker, make_topics, writing
from bench.errors import BenchError
from bench.librdkafka_lookup import TheirLookup
from bench.link_lookup import OurLookup
from bench.report import Row
from bench.samples import multiple
from bench.setting import Setting
from bench.timings import Answers, Timings, request_once
from lab import java
from lab.world import KAFKA_VERSIONS
from state.model.entities import TopicPartition
from streaming.jars import jar_paths

NAME = "lookup"
TOPICS = {f"bench-{number:02d}": 100 for number in range(35)}
ROUNDS = 9
SHELL_ROUNDS = 3
TIMES = {"warm": 0.5, "cold": 0.6}
"""To reach, of librdkafka's time for the same."""
_RECORDS = 8
_BASE_MS = 1_700_000_000_000
_STEP_MS = 1_000
LOOKUP_MS = _BASE_MS + 4 * _STEP_MS + 1
"""Between the fifth and the sixth record of every partition."""
EXPECTED = 5

PARTITIONS = tuple(TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count))


def count_wrong(answers: Answers) -> int:
    """How many partitions were answered with anything but the offset of their sixth record."""
    return sum(answers.get(partition) != EXPECTED for partition in PARTITIONS)


def measure(setting: Setting) -> list[Row]:
    """Take all samples in turns. Raises BenchError when an answer of ours is wrong."""
    setting.say(f"one broker, {len(PARTITIONS):,} partitions")
    timings = Timings(count_wrong)
    with broker(setting) as bootstrap:
        make_topics(bootstrap, TOPICS)
        _fill(bootstrap)
        setting.say(f"{ROUNDS} rounds: ours, confluent-kafka")
        _take_rounds(bootstrap, timings)
        setting.say(f"{SHELL_ROUNDS} rounds: GetOffsetShell")
        for _ in range(SHELL_ROUNDS):
            timings.take("shell", lambda: _shell(bootstrap))
    timings.require_ours()
    return _rows(timings)


def _take_rounds(bootstrap: str, timings: Timings) -> None:
    ours, theirs = OurLookup(bootstrap), TheirLookup(bootstrap)
    clients: dict[str, Callable[[], Answers]] = {
        "ours warm": lambda: ours.request(PARTITIONS, LOOKUP_MS),
        "theirs warm": lambda: theirs.request(PARTITIONS, LOOKUP_MS),
        "ours cold": lambda: request_once(OurLookup(bootstrap), PARTITIONS, LOOKUP_MS),
        "theirs cold": lambda: request_once(TheirLookup(bootstrap), PARTITIONS, LOOKUP_MS),
    }
    try:
        timings.take_rounds(clients, ROUNDS)
    finally:
        ours.close()
        theirs.close()


def _shell(bootstrap: str) -> Answers:
    command = java.command(
        "org.apache.kafka.tools.GetOffsetShell",
        "--bootstrap-server", bootstrap, "--topic", "bench-.*", "--time", str(LOOKUP_MS), heap_mb=512,
    )  # fmt: skip
    environment = {**os.environ, "CLASSPATH": ":".join(str(path) for path in jar_paths(f"kafka-{KAFKA_VERSIONS[0]}"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    if done.returncode:
        raise BenchError(f"GetOffsetShell ended with exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return {
        TopicPartition(found[1], int(found[2])): int(found[3])
        for found in re.finditer(r"^([^:\n]+):(\d+):(\d+)$", done.stdout, re.MULTILINE)
    }


def _fill(bootstrap: str) -> None:
    """Eight records for every partition in two batches, exactly once; the record looked for is inside the second."""
    for numbers in (range(_RECORDS // 2), range(_RECORDS // 2, _RECORDS)):
        with writing(bootstrap) as put:
            for topic, partition in PARTITIONS:
                for number in numbers:
                    put(topic, partition, b"x" * 64, _BASE_MS + number * _STEP_MS)


def _rows(timings: Timings) -> list[Row]:
    return [
        Row(
            measurement=NAME,
            what=f"{len(PARTITIONS):,} partitions by time, {state}",
            unit="ms",
            ours=timings.spread(f"ours {state}"),
            limit=multiple(times, timings.spread(f"theirs {state}")),
            others=(
                timings.other(f"theirs {state}", f"confluent-kafka offsets_for_times, {state}"),
                timings.other("shell", "GetOffsetShell, with the start of its JVM"),
            ),
            note="One broker on loopback. Warm: the look-up alone. Cold: from making the client to closing it. Reach:"
            f" {times:g} times librdkafka's.",
        )
        for state, times in TIMES.items()
    ]
