"""What else than content speaks for a place: the same offsets on both sides, and the replicator's own offset syncs.

Both are asked for only where the route says that they may exist and the rules allow their method; the syncs only for
partitions that content has not placed already, for their topic may be large.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from state.model import TopicPartition
from state.settings import MethodName
from streaming.asked import Asked
from streaming.case import Case
from streaming.log import LogRecord, Spec
from streaming.ranges import read_ranges
from streaming.resume import identity, notes, synced, topics
from streaming.resume.exact import Cause, Found, NoPlace
from streaming.resume.syncs import Syncs
from streaming.syncs import read_syncs


def prove_copies(run: Asked, cases: Sequence[Case]) -> None:
    """Compare what is remembered with the standby's records at the same offsets; what is proven needs no search."""
    if not run.rules.keeps_offsets or MethodName.IDENTITY not in run.rules.methods:
        return
    wanted: dict[TopicPartition, list[int]] = defaultdict(list)
    for case in cases:
        bounds = run.bound(case.key, Spec.EARLIEST), run.bound(case.key, Spec.LATEST)
        kept = identity.sampled(case.want, begin=bounds[0], end=bounds[1]) if case.partner else ()
        wanted[case.key] += (record.offset for record in kept)
    records = _read(run, wanted)
    for case in cases:
        if not case.partner or case.added:
            continue
        here = identity.Lineage(
            begin=run.bound(case.key, Spec.EARLIEST),
            end=run.bound(case.key, Spec.LATEST),
            newest_ms=run.newest_ms(case.key),
            append_time=run.asks_append_time(case.key.topic),
            topic_id=run.facts[case.key.topic].topic_id,
            old=run.old(case.want),
        )
        proof = identity.prove(case.want, here, records.get(case.key))
        case.copy = notes.unproven_copy(proof) if isinstance(proof, str) else proof
        if isinstance(proof, Found):
            case.alignment = proof


def add_syncs(run: Asked, cases: Sequence[Case]) -> None:
    """Give each partition that content did not place what the replicator wrote of it.

    Where content contradicts, a remembered record is not where it should be, the syncs must prove themselves first.
    """
    topic = run.rules.offset_syncs
    if topic is None or MethodName.SYNCED not in run.rules.methods:
        return
    by_content = MethodName.EXACT in run.rules.methods
    open_cases = [case for case in cases if case.partner and not case.added and _is_open(case, by_content=by_content)]
    if not open_cases:
        return
    known = read_syncs(run.log, topic, run.deadline)
    for case in open_cases:
        old = TopicPartition(case.want.topic, case.want.partition)
        case.syncs = known if isinstance(known, str) else known.get(old, Syncs())
    _confirm(run, [case for case in open_cases if _is_mismatch(case)])


def _is_open(case: Case, *, by_content: bool) -> bool:
    return not by_content or (isinstance(case.alignment, NoPlace) and case.alignment.cause not in topics.BEHIND)


def _is_mismatch(case: Case) -> bool:
    return isinstance(case.alignment, NoPlace) and case.alignment.cause is Cause.MISMATCH


def _confirm(run: Asked, cases: Sequence[Case]) -> None:
    """Look at the records that syncs speak of: times survive a replicator that changes keys or values."""
    wanted: dict[TopicPartition, list[int]] = defaultdict(list)
    for case in cases:
        if isinstance(case.syncs, Syncs):
            wanted[case.key] += synced.witnesses(case.want, case.syncs)
    records = _read(run, wanted)
    for case in cases:
        if isinstance(case.syncs, Syncs):
            case.syncs = synced.against(case.want, case.syncs, records.get(case.key)) or case.syncs


def _read(
    run: Asked, wanted: Mapping[TopicPartition, Sequence[int]]
) -> Mapping[TopicPartition, tuple[LogRecord, ...] | None]:
    """The standby's records from the first wanted offset to the last, in one go for all partitions."""
    ranges = {key: (min(offsets), max(offsets) + 1) for key, offsets in wanted.items() if offsets}
    return read_ranges(run.log, ranges, limit=identity.WIDEST, timeout=run.deadline.remaining / 2)
