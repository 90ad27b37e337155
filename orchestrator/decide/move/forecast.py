"""What a plan keeps, so that its forecast can be measured later. Pure.

``followed`` is in the plan of an operation. It has a few of the records of each partition that were read last on the
old cluster. By them they are recognized when the query reads them again on the standby. A record with a twin among
those remembered is not kept: the twin would be taken for a repeat. How far was looked is kept with them, so that
looking can continue where it stopped. A partition whose records are not known to be in the one of its number is
*scattered*. What is read again cannot be recognized there, and its exposure is what no partition of the topic holds.

``awaited`` is in a plan only when the standby lagged: what the move announced to come later. It holds the fingerprints
of the records that the query had read and the standby lacked; few enough that a store's row stays small.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from state.model.entities import Fingerprint, QueryFact
from state.model.fingerprints import digests_of
from state.model.plan import AwaitedPartition, AwaitedRecord, Followed, FollowedPartition, RowsBefore, Witness
from state.settings.keys import MethodName
from streaming.resume.model import Target
from streaming.resume.sent_again import read_until_ms

MOST_REMEMBERED = 4_096
"""Fingerprints that one list of a plan keeps with the operation, shared among its partitions."""
MOST_EACH = 16
MARGIN = 256
"""How many offsets behind the standby's end at the look-up are looked at: a forecast that is too small must show."""
MARGINS = 65_536
"""The same of all partitions together."""
MOST_FOLLOWED = 200_000
"""Of one partition no more offsets are looked at; where more were behind its resume offset, the repeats are unknown."""


def followed_of(
    targets: Iterable[Target],
    looked_up_at: datetime,
    *,
    planned: bool = False,
    committed_only: Collection[str] = frozenset(),
    repartitioned: Collection[str] = (),
) -> Followed:
    """What is kept to measure by; ``looked_up_at``: when the resume offsets were looked up.

    Topics that are ``repartitioned`` have other partitions than on the cluster that was left, and are not measured.
    A planned move leaves nothing behind: what the target lacked then is on its way there, and will be read. Sources in
    ``committed_only`` read only what is committed, and are measured by what such a reader sees.
    """
    targets = list(targets)
    known = [target for target in targets if _is_followed(target)]
    placed = [target for target in targets if target.target_offset is not None and target not in known]
    apart = [] if planned else [target for target in placed if target.target_topic not in repartitioned]
    each = min(MOST_EACH, MOST_REMEMBERED // max(1, len(known)))
    margin = min(MARGIN, MARGINS // max(1, len(known)))
    rows = tuple(
        _row(target, each, margin, planned=planned, committed=target.source in committed_only) for target in known
    )
    rows += tuple(_scattered(target, committed=target.source in committed_only) for target in apart)
    return Followed(asked_at_ms=_milliseconds(looked_up_at), compared=planned, partitions=rows)


def rewound_of(
    targets: Iterable[Target], looked_up_at: datetime, *, committed_only: Collection[str] = frozenset()
) -> Followed:
    """What is kept to measure a rewind by: up to the old position all that is read comes again; nothing is exposed."""
    rows = tuple(
        FollowedPartition(
            source=target.source,
            topic=target.target_topic,
            partition=target.target_partition,
            offset=target.target_offset,
            until=target.offset,
            rewound=True,
            exposed=0,
            committed=target.source in committed_only,
        )
        for target in targets
        if target.target_offset is not None
    )
    return Followed(asked_at_ms=_milliseconds(looked_up_at), compared=True, partitions=rows)


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _is_followed(target: Target) -> bool:
    """Whether it is known which records were read of the partition that this one replaces; or that none was."""
    return target.target_offset is not None and (bool(target.last) or is_unread(target.offset, target.method))


def is_unread(offset: int | None, method: str | None) -> bool:
    """Whether nothing of a partition was read before the move."""
    return offset == 0 and method == MethodName.EXACT


def _row(target: Target, most: int, margin: int, *, planned: bool, committed: bool) -> FollowedPartition:
    later, place = set(target.later), target.target_offset or 0
    end = place if target.end is None else target.end
    last = [each for each in target.last if each not in later] if later else target.last
    return FollowedPartition(
        source=target.source,
        topic=target.target_topic,
        partition=target.target_partition,
        offset=place,
        until=min(place + MOST_FOLLOWED, max(place + (target.replay_records or 0), end) + margin),
        new=0,
        new_after_ms=read_until_ms(target.last) if target.last else None,
        exposed=0 if planned else None,
        sampled_end=target.sampled_end,
        records=_witnesses(last, most, target.after_last),
        committed=committed,
    )


def _scattered(target: Target, *, committed: bool) -> FollowedPartition:
    return FollowedPartition(
        source=target.source,
        topic=target.target_topic,
        partition=target.target_partition,
        offset=target.target_offset or 0,
        until=target.target_offset or 0,
        new=0,
        sampled_end=target.sampled_end,
        committed=committed,
        scattered=True,
    )


def _witnesses(records: Sequence[Fingerprint], most: int, after: int) -> tuple[Witness, ...]:
    """The newest without a twin, and how many were read after each of them."""
    digests = digests_of(records)
    times = Counter(digests)
    alone = [i for i, digest in enumerate(digests) if times[digest] == 1][-most:] if most else []
    return tuple(Witness(records[i].timestamp_ms, digests[i], len(records) - 1 - i + after) for i in alone)


def awaited_of(targets: Iterable[Target]) -> tuple[AwaitedPartition, ...]:
    """What is kept of the records that are announced to come later; empty when there are none."""
    announcing = [
        (target, target.target_offset, target.replay_later_records)
        for target in targets
        if target.replay_later_records and target.target_offset is not None
    ]
    share = MOST_REMEMBERED // max(1, len(announcing))
    return tuple(
        AwaitedPartition(
            source=target.source,
            topic=target.target_topic,
            partition=target.target_partition,
            offset=place,
            announced=later,
            records=tuple(
                AwaitedRecord(each.timestamp_ms, each.digest) for each in (target.later[-share:] if share else ())
            ),
        )
        for target, place, later in announcing
    )


def rows_before_of(fact: QueryFact | None, cluster: str) -> RowsBefore | None:
    """The rows of the run that a move takes from a cluster; None where it reported none there."""
    if fact is None or fact.rows is None or fact.cluster != cluster:
        return None
    rows = fact.rows
    return RowsBefore(
        batches=rows.batches, read=rows.read, written=rows.written, dropped=rows.dropped, usual_batch=rows.usual
    )
