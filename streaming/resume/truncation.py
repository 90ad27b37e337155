"""Whether a log still holds what was read from it, and where a reader goes that cannot continue where it was.

A position names the leader epoch of the last record read (KIP-320). Where the log says that this epoch ends *before*
the position, the records in between are gone, as after an unclean leader election. Offsets alone would not show it once
the log has grown past the position again. A recreated topic is known by its id (KIP-516): its offsets are those of
another log, whatever its epochs say.

``TABLE`` is the reset table of the KIP-320 draft. Kafka shipped ``latest``, ``earliest`` and ``none``
(``auto.offset.reset``) and left ``closest`` out; here all four are the words of ``policy.on_no_match``, where ``fail``
is Kafka's ``none``. The table is data, so that it can be read and tested beside the document; what a row means for one
log is in ``resolved``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from state.model.entities import Position, TopicPartition
from state.plain_text import few
from streaming.cluster_log import EpochEnd, PartitionError


class Situation(StrEnum):
    """Why a reader cannot continue where it was: the columns of the table."""

    INITIAL = "nothing was read yet"
    TOO_LOW = "the log begins after the position"
    KNOWN = "the log was cut, and where is known"
    UNKNOWN = "the log was cut, and where is not known"


class Goto(StrEnum):
    """Where the table sends a reader."""

    BEGIN = "log start offset"
    END = "log end offset"
    DIVERGENCE = "truncation offset"
    TIME = "by timestamp, else log end offset"
    NOWHERE = "nowhere: a person decides"


_COLUMNS = (Situation.INITIAL, Situation.TOO_LOW, Situation.KNOWN, Situation.UNKNOWN)
_ROWS: Mapping[str, tuple[Goto, Goto, Goto, Goto]] = {
    "latest": (Goto.END, Goto.END, Goto.DIVERGENCE, Goto.END),
    "earliest": (Goto.BEGIN, Goto.BEGIN, Goto.DIVERGENCE, Goto.BEGIN),
    "closest": (Goto.BEGIN, Goto.BEGIN, Goto.DIVERGENCE, Goto.TIME),
    "fail": (Goto.NOWHERE, Goto.NOWHERE, Goto.NOWHERE, Goto.NOWHERE),
}
TABLE: Mapping[tuple[str, Situation], Goto] = {
    (policy, situation): goto for policy, row in _ROWS.items() for situation, goto in zip(_COLUMNS, row, strict=True)
}
"""By policy and situation."""


def resolved(
    goto: Goto, *, begin: int, end: int, divergence: int | None = None, by_time: int | None = None
) -> int | None:
    """The offset that a row of the table means in a log of ``[begin, end]``, clamped to it; None: nowhere.

    ``divergence`` is needed where the table says so; without ``by_time`` the closest is the end, as where the message
    format has no timestamps.
    """
    wanted = {Goto.BEGIN: begin, Goto.END: end, Goto.DIVERGENCE: divergence, Goto.NOWHERE: None}
    offset = (end if by_time is None else by_time) if goto is Goto.TIME else wanted[goto]
    return None if offset is None else min(max(offset, begin), end)


_NAMED = 3
"""Partitions that a sentence names; the value has them all."""


class Finding(StrEnum):
    """What became of the records before a position."""

    INTACT = "intact"
    TRUNCATED = "truncated"
    """The log went back before the position, or continues from another one before it."""
    RECREATED = "recreated"
    """The topic was deleted and created again."""
    EXPIRED = "expired"
    """Retention has deleted records that were not read."""
    UNPROVEN = "unproven"
    """The position lies inside the log, but no leader epoch is known for it, or no broker could be reached."""


SITUATIONS: Mapping[Finding, Situation] = {Finding.EXPIRED: Situation.TOO_LOW}
"""Of the reset table; truncation's depends on whether the offset of divergence is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogNow:
    """One partition's log as it is now."""

    topic_id: str | None
    begin: int
    end: int
    epoch_end: EpochEnd | None
    """Answer to the position's leader epoch; None when it names none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What became of one position."""

    source: str
    partition: TopicPartition
    offset: int
    finding: Finding
    divergence: int | None = None
    """First offset at which the log is not the one that was read; None where that is unknown."""
    note: str = ""

    @property
    def situation(self) -> Situation | None:
        """Its column in the reset table; None where the reader can continue."""
        if self.finding in (Finding.TRUNCATED, Finding.RECREATED):
            return Situation.UNKNOWN if self.divergence is None else Situation.KNOWN
        return SITUATIONS.get(self.finding)


def judge_log(position: Position, log: LogNow | PartitionError) -> Standing:
    """Compare a position with the log that it was read from.

    As Kafka's consumer does when it validates a position (``SubscriptionState.maybeCompleteValidation``): an epoch
    that the log does not know leaves the divergence unknown. An epoch that ends before the position is where it lies.
    One thing more: an epoch that the log lacks although others around it reach to the position is reported, too; the
    consumer would continue.
    """
    if isinstance(log, PartitionError):
        return _found(position, Finding.UNPROVEN, note=f"{log.name}: {log.text}")
    if position.topic_id is not None and log.topic_id is not None and position.topic_id != log.topic_id:
        note = f"the topic was recreated: its id was {position.topic_id} and is now {log.topic_id}"
        return _found(position, Finding.RECREATED, divergence=0, note=note)
    answer = log.epoch_end if log.epoch_end is not None and log.epoch_end.error is None else None
    if answer is not None:
        diverged = _diverged(position, answer)
        if diverged is not None:
            return diverged
    elif log.end < position.offset:
        note = f"the log ends at {log.end}, before the position"
        return _found(position, Finding.TRUNCATED, note=note)
    if position.offset < log.begin:
        note = f"the log begins at {log.begin}: records before that were deleted before they were read"
        return _found(position, Finding.EXPIRED, note=note)
    if answer is None:
        return _found(position, Finding.UNPROVEN, note=_why_unproven(log.epoch_end))
    return _found(position, Finding.INTACT)


def _diverged(position: Position, answer: EpochEnd) -> Standing | None:
    requested = position.leader_epoch
    if answer.end_offset is None or answer.leader_epoch is None:
        note = f"the log does not know leader epoch {requested}, under which the last record was read"
        return _found(position, Finding.TRUNCATED, note=note)
    if answer.end_offset < position.offset:
        note = f"leader epoch {answer.leader_epoch} ends at {answer.end_offset} in the log as it is now"
        return _found(position, Finding.TRUNCATED, divergence=answer.end_offset, note=note)
    if requested is not None and answer.leader_epoch < requested:
        note = f"the log has no leader epoch {requested}, under which the last record was read"
        return _found(position, Finding.TRUNCATED, note=note)
    return None


def _why_unproven(answer: EpochEnd | None) -> str:
    if answer is None:
        return "the leader epoch of the last record read is unknown"
    return "" if answer.error is None else f"{answer.error.name}: {answer.error.text}"


def _found(position: Position, finding: Finding, *, divergence: int | None = None, note: str = "") -> Standing:
    return Standing(
        source=position.source,
        partition=TopicPartition(position.topic, position.partition),
        offset=position.offset,
        finding=finding,
        divergence=divergence,
        note=note,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LogTruncation:
    """Records that were read are gone from a cluster's log: Kafka's ``LogTruncationException`` as a value.

    The KIP's draft called it ``TruncatedPartitionException``; that name did not ship.
    """

    cluster: str
    divergent_offsets: Mapping[TopicPartition, int | None]
    """By partition, the offset at which its log parts from what was read; None where that is not known. Of several
    positions in one partition the earliest known counts."""
    offsets: Mapping[TopicPartition, int]
    """By partition, the furthest position that was read."""

    def __str__(self) -> str:
        named = [
            f"{place.topic}-{place.partition} (read to {self.offsets[place]}, diverges at "
            f"{'an unknown offset' if offset is None else offset})"
            for place, offset in sorted(self.divergent_offsets.items())
        ]
        return f"log truncation on {self.cluster}: {few(named, _NAMED)}"


def truncation_of(cluster: str, standings: Iterable[Standing]) -> LogTruncation | None:
    """The error for all positions whose log was cut or created again; None when there is none."""
    divergent: dict[TopicPartition, int | None] = {}
    offsets: dict[TopicPartition, int] = {}
    for each in standings:
        if each.finding not in (Finding.TRUNCATED, Finding.RECREATED):
            continue
        known = [found for found in (divergent.get(each.partition), each.divergence) if found is not None]
        divergent[each.partition] = min(known, default=None)
        offsets[each.partition] = max(each.offset, offsets.get(each.partition, 0))
    return LogTruncation(cluster=cluster, divergent_offsets=divergent, offsets=offsets) if divergent else None
