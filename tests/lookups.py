"""Look-ups as Kafka's own tests know them: what is written, what is requested, and the answer; one table for every log.

A case is a script. Its writer brings the records to a log of one kind, and ``follow`` holds the log's answers against
the table's.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import NamedTuple, Protocol

from state.model.entities import TopicPartition
from streaming.cluster_log import ClusterLog, OffsetAnswer, Spec

GZIP, LZ4 = {"producer": "gzip"}, {"compression.type": "lz4"}
NOW = 1_763_000_000_000


class Write(NamedTuple):
    """Records with these times to every partition, each in a batch of its own unless they come ``together``."""

    times: tuple[int, ...]
    together: bool = False
    by: str = ""
    """The transactional producer that writes them, whose transaction stays open."""


class Commit(NamedTuple):
    """The open transaction of a producer ends well."""

    by: str


class Delete(NamedTuple):
    """All records before an offset are deleted."""

    before: int


class Elect(NamedTuple):
    """Another replica leads."""


class Question(NamedTuple):
    """A question and its answer; where the test that is cited leaves a part of it open, ``...``."""

    time: int
    offset: int | EllipsisType | None
    timestamp_ms: int | EllipsisType | None = None
    committed: bool = False
    elected: bool | EllipsisType = ...
    """Whether the leader epoch of the answer is that of a later leader than the first."""


Step = Write | Commit | Delete | Elect | Question


class Writer(Protocol):
    """Brings what a script says to one topic."""

    def take(self, step: Write | Commit | Delete | Elect) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Case:
    """One known case; ``known_as`` names the class and the test."""

    name: str
    known_as: str
    script: tuple[Step, ...]
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    """Of the topic, but for ``producer``: the codec of who writes."""

    @property
    def append_time(self) -> bool:
        return self.config.get("message.timestamp.type") == "LogAppendTime"

    @property
    def elects(self) -> bool:
        return Elect() in self.script


def follow(case: Case, log: ClusterLog, writer: Writer, *, patience: float = 0.0) -> None:
    """Play a script; an answer may be late by ``patience`` seconds, as a marker or a leader is on real brokers."""
    keys = [TopicPartition(case.name, number) for number in range(case.partitions)]
    for step in case.script:
        if not isinstance(step, Question):
            writer.take(step)
            continue
        deadline = time.monotonic() + patience
        while True:
            found = log.offsets(dict.fromkeys(keys, step.time), read_committed=step.committed, timeout=60)
            if all(_agrees(step, found[key]) for key in keys) or time.monotonic() >= deadline:
                break
            time.sleep(0.1)
        for key in keys:
            assert _agrees(step, found[key]), f"{case.known_as}: {step} of {key}: {found[key]}"


def _agrees(step: Question, found: OffsetAnswer) -> bool:
    return (
        found.error is None
        and step.offset in (..., found.offset)
        and step.timestamp_ms in (..., found.timestamp_ms)
        and (step.elected is ... or (found.leader_epoch is not None and (found.leader_epoch > 0) == step.elected))
    )


def _ends(latest: int, newest: int, timestamp_ms: int | EllipsisType = ...) -> tuple[Question, ...]:
    return Question(Spec.EARLIEST, 0), Question(Spec.LATEST, latest), Question(Spec.MAX_TIMESTAMP, newest, timestamp_ms)


_THREE = (100, 999, 200)
_SHELL = "GetOffsetShellTest.testGetLatestOffsets, ..EarliestOffsets, ..ByMaxTimestamp, ..ByTimestamp, testNoOffset.."
_INTEGRATION = "ListOffsetsIntegrationTest.testThree"

CASES: tuple[Case, ...] = (
    # -- time index
    Case(
        name="time-index",
        known_as="LogSegmentTest.testFindOffsetByTimestamp",
        config={"index.interval.bytes": "100"},
        script=(
            Write(tuple(range(400, 500, 10))),
            Question(Spec.MAX_TIMESTAMP, 9, 490),
            *(
                Question(requested, offset, 400 + 10 * offset)
                for requested, offset in ((420, 2), (421, 3), (430, 3), (431, 4))
            ),
            Question(491, None),
            Question(401, 1, 410),
            Question(399, 0, 400),
        ),
    ),
    Case(
        name="unordered",
        known_as="LogOffsetTest.testFetchOffsetByTimestampForMaxTimestampWithUnorderedTimestamps",
        script=(
            Write((10, 11, 12, 13, 14, 16, 15)),
            Question(Spec.LATEST, 7),
            Question(Spec.MAX_TIMESTAMP, 5, 16),
            Question(15, 5, 16),
        ),
    ),
    Case(
        name="empty",
        known_as="LogOffsetTest.testFetchOffsetByTimestampForMaxTimestampWithEmptyLog",
        script=(Question(Spec.LATEST, 0), Question(Spec.MAX_TIMESTAMP, None), Question(0, None), Question(NOW, None)),
    ),
    # -- the largest time, by batch and by codec
    *(
        Case(
            name=f"three-{'one' if together else 'own'}-{codec}{'-stamped' if stamped else ''}",
            known_as=f"{_INTEGRATION}{'..InOneBatch' if together else '..InSeparateBatch'}",
            config={**config, **({"message.timestamp.type": "LogAppendTime"} if stamped else {})},
            script=(
                Write(_THREE, together=together),
                *(_ends(3, 0 if together else 2) if stamped else _ends(3, 1, 999)),
                *(
                    (Question(0, 0, ...), Question(1, 0, ...))
                    if stamped
                    else (Question(0, 0, 100), Question(101, 1, 999))
                ),
                Question(NOW * 2, None),
            ),
        )
        for codec, config in (("plain", {}), ("gzip", GZIP), ("lz4", LZ4))
        for together in (True, False)
        for stamped in (False, True)
    ),
    # -- every partition of a topic
    *(
        Case(
            name=f"shell-{count}",
            known_as=_SHELL,
            partitions=count,
            script=(
                Write((NOW,) * count),
                Question(Spec.LATEST, count),
                Question(Spec.EARLIEST, 0),
                Question(Spec.MAX_TIMESTAMP, 0, NOW),
                Question(NOW // 2, 0, NOW),
                Question(NOW * 2, None),
            ),
        )
        for count in (1, 2, 3, 4)
    ),
    # -- deletion
    Case(
        name="deleted",
        known_as="PlaintextAdminIntegrationTest.testOffsetsForTimesAfterDeleteRecords",
        script=(
            Write(tuple(range(NOW, NOW + 10))),
            Question(0, 0, NOW),
            Delete(5),
            Question(0, 5, NOW + 5),
            Question(Spec.EARLIEST, 5),
            Delete(10),
            Question(0, None),
            Question(Spec.EARLIEST, 10),
            Question(Spec.LATEST, 10),
        ),
    ),
    # -- transactions
    Case(
        name="undecided",
        known_as="TransactionsTest.testReadCommittedConsumerShouldNotSeeUndecidedData",
        script=(
            Write((NOW,), by="other"),
            Write((NOW + 1, NOW + 1), by="first"),
            Write((NOW + 1,), by="other"),
            Question(Spec.MAX_TIMESTAMP, 1, NOW + 1),
            Question(Spec.MAX_TIMESTAMP, None, committed=True),
            Commit("other"),  # whose marker is stamped by its broker, and then the newest of all
            Question(Spec.LATEST, 5),
            Question(NOW + 1, 1, NOW + 1),
            Question(Spec.LATEST, 1, committed=True),
            Question(NOW, 0, NOW, committed=True),
            Question(NOW + 1, None, committed=True),
            Commit("first"),
            Question(Spec.LATEST, 6, committed=True),
            Question(NOW + 1, 1, NOW + 1, committed=True),
        ),
    ),
    # -- another leader
    Case(
        name="elected",
        known_as="ListOffsetsRequestTest.testResponseIncludesLeaderEpoch",
        script=(
            Write((*(NOW,) * 9, NOW + 10)),
            Question(0, 0, NOW, elected=False),
            Question(Spec.EARLIEST, 0, elected=False),
            Question(Spec.LATEST, 10, elected=False),
            Question(Spec.MAX_TIMESTAMP, 9, NOW + 10, elected=False),
            Elect(),
            Question(0, 0, NOW, elected=False),
            Question(Spec.EARLIEST, 0, elected=False),
            Question(Spec.LATEST, 10, elected=True),
            Question(Spec.MAX_TIMESTAMP, 9, NOW + 10, elected=False),
        ),
    ),
)
