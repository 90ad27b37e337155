"""The resolver: for every partition of the old cluster, where to resume on the standby, and what it costs.

All partitions are looked up together, in few rounds: the topics' facts, then the ends, the begins, the times, then the
records that alignment needs. The ends come *before* the times, so that "no record at that time" can be answered with a
number behind which nothing unread can hide. Errors stay with their partition. Deciding is done by the pure
functions of ``streaming.resume``; this module only sends requests, and passes them the facts.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from state.model.entities import EndSample, Fingerprint, TopicPartition
from state.model.fingerprints import timestamps_of
from state.settings.keys import MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, LogRecord, OffsetAnswer, Spec
from streaming.resolve.answer_checks import confirm_times, unless_cut
from streaming.resolve.batched_lookups import Question, request_offsets, request_segments
from streaming.resolve.lookup import Case, Lookup
from streaming.resolve.offset_syncs import add_syncs, prove_copies
from streaming.resolve.ranges import read_ranges
from streaming.resolve.scan import SKEW_MS, Scan, scan
from streaming.resolve.sent_again_scan import SEARCH_SECONDS, count_sent_again
from streaming.resume import notes, topic_checks
from streaming.resume.gaps import admitted, better, committed, is_countable, normalised, nothing_read
from streaming.resume.methods import segment
from streaming.resume.methods.choose import MethodInput as Choice
from streaming.resume.methods.content_search import Cause, Found, NoPlace
from streaming.resume.methods.fingerprint_match import FingerprintMatcher
from streaming.resume.methods.timestamp import common_time, requested_time
from streaming.resume.model import Resolution, Rules, Target, Want
from streaming.resume.offset_syncs import Syncs
from streaming.resume.standby_lookup import StandbyLookup
from streaming.resume.target import failed_target, in_order, target

Group = tuple[str, str, str]
"""Source, old topic, standby's topic."""


def resolve(
    log: ClusterLog,
    wants: Sequence[Want],
    rules: Rules,
    *,
    old_ends: Mapping[TopicPartition, EndSample],
    now: datetime,
    timeout: float,
    search_seconds: float = SEARCH_SECONDS,
) -> Resolution:
    """Find every want's place on ``log`` within ``timeout`` seconds.

    For what was sent again behind the places it searches for ``search_seconds``, or half of the time that is left.
    ``old_ends``: last samples of the old cluster by old topic and partition. The same partition may be wanted several
    times. A topic with another partition count yields one target per partition of the standby. Raises
    ``ClusterUnreachable`` when no server of the standby answers.
    """
    began, deadline = time.monotonic(), Deadline.after(timeout)
    facts = log.describe(sorted({want.target_topic for want in wants}), timeout=deadline.remaining)
    run = Lookup(
        log=log,
        rules=rules,
        old_ends=old_ends,
        now=now,
        deadline=deadline,
        search_seconds=search_seconds,
        facts=facts,
    )
    targets: list[Target] = []
    cases: list[Case] = []
    counts: dict[str, tuple[int, int]] = {}
    missing: dict[str, None] = {}
    for group, members in _groups(wants, old_ends).items():
        topic = facts.get(group[2])
        if topic is None or topic.error is not None or not topic.partitions:
            missing |= {group[2]: None} if topic_checks.is_missing(topic) else {}
            targets += [failed_target(want, rules, topic_checks.error_of(topic)) for want in members]
            continue
        old = max(want.partition for want in members) + 1
        if old < len(topic.partitions):
            counts[group[2]] = (old, len(topic.partitions))
            cases += _grown_cases(run, members)
        elif old == len(topic.partitions):
            cases += [_case(run, want) for want in members]
        else:
            counts[group[2]] = (old, len(topic.partitions))
            note = notes.repartitioned(old, len(topic.partitions))
            cases += _common_cases(run, members, note)
    targets += _answer(run, cases)
    return Resolution(
        targets=in_order(targets, wants),
        looked_up_at=now,
        seconds=time.monotonic() - began,
        missing_topics=tuple(missing),
        fewer_partitions=counts,
        timestamp_types={name: topic.timestamp_type for name, topic in facts.items() if topic.timestamp_type},
        earliest_timestamps=_earliest(run),
        search_cut_short=run.search_cut_short,
    )


def _group(want: Want) -> Group:
    return want.source, want.topic, want.target_topic


def _groups(wants: Sequence[Want], old_ends: Mapping[TopicPartition, EndSample]) -> dict[Group, list[Want]]:
    groups: dict[Group, list[Want]] = defaultdict(list)
    for want in wants:
        old = old_ends.get(TopicPartition(want.topic, want.partition))
        groups[_group(want)].append(normalised(want, old))
    return groups


def _case(run: Lookup, want: Want) -> Case:
    old = run.old(want)
    return Case(
        want=want,
        key=TopicPartition(want.target_topic, want.partition),
        idle=None if old is None or old.end < want.offset else old.end == want.offset,
        alignment=NoPlace(Cause.TRUNCATED) if want.lost else None,
    )


def _grown_cases(run: Lookup, members: Sequence[Want]) -> list[Case]:
    """A topic with more partitions on the standby: perhaps only added ones, of which nothing was read."""
    known = {want.partition for want in members}
    spread = topic_checks.spread(members, len(run.facts[members[0].target_topic].partitions))
    return [_case(run, want) for want in members] + [
        replace(_case(run, want), added=True, note=notes.ADDED) for want in spread if want.partition not in known
    ]


def _common_cases(run: Lookup, members: Sequence[Want], note: str) -> list[Case]:
    """A topic whose partitions do not match: the smallest T of the old ones, for every partition of the standby."""
    time, buffer_ms = common_time(members, run.rules)
    alignment = NoPlace(Cause.REPARTITIONED)
    oldest = min((each for want in members for each in timestamps_of(want.ring[-READ_LAST:])), default=None)
    cases = []
    for want in topic_checks.spread(members, len(run.facts[members[0].target_topic].partitions)):
        key = TopicPartition(want.target_topic, want.partition)
        shared = replace(want, timestamp_ms=time, buffer_ms=buffer_ms)
        cases.append(
            Case(want=shared, key=key, partner=False, alignment=alignment, oldest_ms=oldest, note=note),
        )
    return cases


def _answer(run: Lookup, cases: list[Case]) -> list[Target]:
    keys = dict.fromkeys(case.key for case in cases)
    run.request((key, Spec.LATEST) for key in keys)
    if run.rules.committed_only:
        visible = {case.key: None for case in cases if case.want.source in run.rules.committed_only}
        run.visible = request_offsets(
            run.log, [(key, Spec.LATEST) for key in visible], run.deadline, read_committed=True
        )
    run.request((key, Spec.EARLIEST) for key in keys)
    whole = [case for case in cases if run.error(case.key) is None]
    _request_times(run, whole)
    run.lengthen(case.key for case in whole)
    prove_copies(run, whole)
    _align(run, whole)
    _confirm_begins(run, [case for case in whole if _may_have_been_cut(run, case)])
    for case in whole:
        _take_scan(run, case)
    add_syncs(run, whole)
    whole = _regroup(run, whole, cases)
    confirm_times(run, whole)
    count_sent_again(run, whole)
    _request_segments(run, whole)
    broken = [case for case in cases if run.error(case.key) is not None]
    return unless_cut(run, whole, [_target(run, case) for case in whole]) + [
        failed_target(case.want, run.rules, run.error(case.key)) for case in broken
    ]


def _take_scan(run: Lookup, case: Case) -> None:
    """The outcome by content, and what retention on the standby has to do with it."""
    outcome = case.alignment if case.scan is None else case.scan.outcome
    if outcome is None and case.scan is None:
        return
    begin, first = run.bound(case.key, Spec.EARLIEST), run.first_kept(case.key)
    case.is_cut = case.is_cut or (case.scan is not None and case.scan.is_shorter)
    is_cut = (begin > 0 or case.is_cut) and not (
        isinstance(outcome, NoPlace) and outcome.cause is Cause.EMPTY and case.idle is True
    )
    is_older = is_cut and _begins_older(run, case, first)
    found = topic_checks.expired(outcome, case.want, first, is_cut=is_cut, is_older=is_older)
    if case.scan is not None and isinstance(found, Found) and case.want.source in run.rules.committed_only:
        behind = run.bound(case.key, Spec.LATEST) - found.offset
        found = admitted(found, case.scan.ring, case.scan.search.records, behind=behind)
    case.alignment = found


READ_LAST = 16
"""The oldest time of so many of the records read last stands for what was read."""
FIRST = 4
"""So many of the records that retention has left show by their times whether unread ones were deleted before them."""


def _begins_older(run: Lookup, case: Case, first: OffsetAnswer | None) -> bool:
    """Whether what retention has left begins before T minus the buffer: then no unread record lay before that.

    T is the oldest time of the records read last here, as one of them may be ahead of all others. The first record by
    its time may be a marker, so the records count if they were read. The standby's own times say nothing, nor do those
    of a handful of records, on either side.
    """
    read_last = timestamps_of(case.want.ring[-READ_LAST:])
    times = [time for time in (case.want.timestamp_ms, case.oldest_ms, *read_last) if time is not None]
    since = requested_time(min(times, default=None), run.rules.buffer_of(case.want))
    stamped = run.uses_append_time(case.key.topic)
    is_common = not case.partner and case.want.timestamp_ms is None  # then one partition's times say nothing
    if since is None or is_common or stamped or 0 < len(case.want.ring) < READ_LAST:
        return False
    begin = run.bound(case.key, Spec.EARLIEST)
    begin = begin if first is None or first.offset is None else max(begin, first.offset)
    if case.scan is not None and case.scan.start <= begin:
        first_times = [record.timestamp_ms for record in case.scan.search.records[:FIRST]]
        return len(first_times) == FIRST and max(first_times) < since
    return first is not None and first.timestamp_ms is not None and first.timestamp_ms < since


def _request_times(run: Lookup, cases: Iterable[Case]) -> None:
    """T - buffer of each, the newest time, and the oldest one kept where retention may have worked."""
    questions: list[Question] = []
    for case in cases:
        time = requested_time(case.want.timestamp_ms, run.rules.buffer_of(case.want))
        if time is not None and (run.rules.uses_times or case.want.lost == MethodName.CLOSEST):
            questions.append((case.key, time))
        questions.append((case.key, Spec.MAX_TIMESTAMP))
        if run.bound(case.key, Spec.EARLIEST) > 0:
            questions.append((case.key, 0))
    run.request(questions)


def _request_segments(run: Lookup, cases: Iterable[Case]) -> None:
    """Where times may not be looked up, or this broker does not know them and never will."""
    if MethodName.SEGMENT not in run.rules.methods:
        return
    requested = []
    for case in cases:
        time = requested_time(case.want.timestamp_ms, run.rules.buffer_of(case.want))
        if time is not None and not run.answers_times(case.key, time):
            requested.append((case.key, _segment_time(run, case)))
    run.segments = request_segments(run.log, requested, run.deadline, limit=segment.REQUESTED)


def _segment_time(run: Lookup, case: Case) -> int:
    """A segment of that very millisecond may hold an unread record, and others of it may be in the one before."""
    time = requested_time(case.want.timestamp_ms, segment.buffer_of(case.want, run.rules)) or 0
    return max(0, time - 1)


def _may_have_been_cut(run: Lookup, case: Case) -> bool:
    """Whether nothing that was read shows the begin of a log of which only times will say where to resume."""
    is_shown = case.scan is None or case.scan.is_shorter or case.scan.start <= run.bound(case.key, Spec.EARLIEST)
    placed = case.alignment if case.scan is None else case.scan.outcome
    return isinstance(placed, NoPlace) and not is_shown and run.bound(case.key, Spec.EARLIEST) == 0


def _confirm_begins(run: Lookup, cases: Iterable[Case]) -> None:
    """The begin of the standby is the place, or shows that nothing was deleted: it must be there to be read."""
    bounds = {case.key: (run.bound(case.key, Spec.EARLIEST), run.bound(case.key, Spec.LATEST)) for case in cases}
    ranges = {key: (begin, begin + 1) for key, (begin, end) in bounds.items() if begin < end}
    if not ranges:
        return
    read = read_ranges(run.log, ranges, limit=1, timeout=run.deadline.remaining / 2)
    for case in cases:
        if case.key not in read or read[case.key] is not None:
            continue
        if isinstance(case.alignment, Found):
            note = notes.joined(case.alignment.note, notes.begun_late(bounds[case.key][0]))
            case.alignment = replace(case.alignment, exact=False, expired=True, note=note)
        case.is_cut = True


def _align(run: Lookup, cases: Iterable[Case]) -> None:
    """Look for every remembered place by content; also where only time may decide, for it measures the replay."""
    lows: dict[Question, list[tuple[Case, FingerprintMatcher]]] = defaultdict(list)
    for case in cases:
        if case.alignment is not None:
            continue
        begin, end = run.bound(case.key, Spec.EARLIEST), run.bound(case.key, Spec.LATEST)
        if case.want.ring and begin < end:
            ring = _ring(run, case)
            lows[case.key, _low_time(run, case.key.topic, ring)].append((case, ring))
        elif case.want.ring:
            case.alignment = NoPlace(Cause.EMPTY)
        else:
            case.alignment = nothing_read(case.want, begin=begin, end=end, old=run.old(case.want))
    _confirm_begins(run, [case for case in cases if case.alignment is not None and not case.want.ring])
    run.request(lows)
    begun = [_scan(run, case, ring, question) for question, requested in lows.items() for case, ring in requested]
    scan(run.log, [item for item in begun if item is not None], run.deadline)
    for item in begun:
        if item is not None and item.is_grown:
            end = max(item.end, run.bound(item.key, Spec.LATEST))
            run.answers[item.key, Spec.LATEST] = replace(run.answers[item.key, Spec.LATEST], offset=end)
    _align_committed(run, [case for case in cases if case.scan is not None])
    run.stamped |= {case.key.topic for case in cases if case.scan is not None and case.scan.append_time}


def _align_committed(run: Lookup, cases: Iterable[Case]) -> None:
    """Where the place is not proven, look for it once more: the standby may lack what was read and not committed."""
    again: list[tuple[Case, FingerprintMatcher, Question]] = []
    for case in cases:
        known, outcome = committed(case.want), case.scan.outcome if case.scan else None
        if known and not run.is_compacted(case.key.topic) and not (isinstance(outcome, Found) and outcome.exact):
            ring = _ring(run, case, [case.want.ring[index] for index in known])
            again.append((case, ring, (case.key, _low_time(run, case.key.topic, ring))))
    run.request(question for _, _, question in again)
    begun = [(case, case.scan, _scan(run, case, ring, question)) for case, ring, question in again]
    scan(run.log, [item for _, _, item in begun if item is not None], run.deadline)
    for case, former, item in begun:
        if item is None or not better(former.outcome if former else None, item.outcome):
            case.alignment, case.scan = None, former
            case.by_committed = None if item is None else item.outcome


def _ring(run: Lookup, case: Case, records: Sequence[Fingerprint] | None = None) -> FingerprintMatcher:
    return FingerprintMatcher(
        case.want.ring if records is None else records,
        run.rules.context,
        timed=not run.uses_append_time(case.key.topic),
        begin=case.want.begin_known or 0,
        disorder_ms=run.rules.buffer_of(case.want),
    )


def _low_time(run: Lookup, topic: str, ring: FingerprintMatcher) -> int:
    """A record's own time never looks up a place after it, so the largest of the last K bounds the place from below."""
    if run.is_compacted(topic):
        return max(0, min(ring.known.timestamps))
    newest = max(ring.tail.timestamps)
    return max(0, newest - (SKEW_MS if run.uses_append_time(topic) else 0))


def _scan(run: Lookup, case: Case, ring: FingerprintMatcher, question: Question) -> Scan | None:
    looked, topic = run.answers[question], case.key.topic
    if looked.error is not None:
        case.alignment = NoPlace(Cause.ERROR, notes.failed(looked.error))
        return None
    end = run.bound(case.key, Spec.LATEST)
    append_time, first, old = run.uses_append_time(topic), run.first_kept(case.key), run.old(case.want)
    case.scan = Scan(
        key=case.key,
        ring=ring,
        begin=run.bound(case.key, Spec.EARLIEST),
        begin_ms=None if first is None else first.timestamp_ms,
        end=end,
        lo=end if looked.offset is None else max(min(looked.offset, end), run.bound(case.key, Spec.EARLIEST)),
        requested_ms=question[1],
        hint=looked,
        old=old,
        newest=run.answers.get((case.key, Spec.MAX_TIMESTAMP)),
        lo_time_ms=question[1] + (SKEW_MS if append_time else 0),
        compacted=run.is_compacted(topic),
        append_time=append_time,
        gap=case.want.offset - (case.want.offset if case.want.ring_offset is None else case.want.ring_offset),
        dense=case.want.dense is True and is_countable(case.want, case.want.source in run.rules.committed_only),
        read=None if ring.size == len(case.want.ring) else _ring(run, case),
        ahead_ms=old.newest_timestamp_ms if old is not None and old.end > case.want.offset else None,
    )
    return case.scan


def _regroup(run: Lookup, cases: list[Case], every: Iterable[Case]) -> list[Case]:
    """Where one partition of a topic is a mismatch, its partitioner may differ: the whole topic goes by common time.

    ``every``: those of partitions with an error, too. What they lead to here may lie in any other partition.
    """
    groups: dict[Group, list[Case]] = defaultdict(list)
    wants: dict[Group, list[Want]] = defaultdict(list)
    for case in cases:
        groups[_group(case.want)].append(case)
    for case in every:
        wants[_group(case.want)] += () if case.added else (case.want,)
    kept: list[Case] = []
    for group, members in groups.items():
        against = _against(run, group, members)
        if against:
            common = _common_cases(run, wants[group], against)
            cut = {case.key for case in members if case.is_cut}
            for case in common:
                case.is_cut = case.key in cut
            kept += [case for case in common if run.error(case.key) is None]  # the others have failed already
            continue
        for case in members:
            case.alignment = topic_checks.behind(case.alignment, run.bound(case.key, Spec.LATEST))
        kept += members
    _request_times(run, kept)
    for case in kept:
        if case not in cases:
            _take_scan(run, case)
    return kept


def _against(run: Lookup, group: Group, members: Sequence[Case]) -> str:
    """Why the standby's partitions are not taken for the old ones' copies, one to one; empty if they are.

    Where nothing was found by all records read, the committed ones alone may show it: the others may be the youngest.
    """
    count = len(run.facts[group[2]].partitions)
    old = [case for case in members if not case.added]
    if len(old) < len(members) and not all(topic_checks.is_partner(case.want, case.alignment) for case in old):
        return notes.repartitioned(len({case.key.partition for case in old}), count)
    unknown = [case for case in old if case.partner and not isinstance(case.syncs, Syncs)]
    stranger = topic_checks.mismatch(
        (case.key.partition, outcome, case.is_cut or run.bound(case.key, Spec.EARLIEST) > 0)
        for case in unknown
        for outcome in (case.alignment, None if isinstance(case.alignment, Found) else case.by_committed)
    )
    return "" if stranger is None or count == 1 else notes.unaligned(stranger)


def _target(run: Lookup, case: Case) -> Target:
    key = case.key
    time = requested_time(case.want.timestamp_ms, run.rules.buffer_of(case.want))
    first = run.first_kept(key)
    assert case.alignment is not None
    facts = StandbyLookup(
        begin=run.bound(key, Spec.EARLIEST),
        end=run.end(key, case.want.source),
        log_end=run.bound(key, Spec.LATEST),
        by_time=None if time is None else run.answers.get((key, time)),
        segments=None if time is None else run.segments.get((key, _segment_time(run, case))),
        newest_ms=run.newest_ms(key),
        earliest_ms=None if first is None else first.timestamp_ms,
        append_time=run.uses_append_time(key.topic),
        alignment=case.alignment,
        scanned=() if case.scan is None else case.scan.search.records,
        scanned_from=None if case.scan is None else case.scan.start,
        syncs=case.syncs,
        copy=case.copy,
        behind=_given(run, case),
        resent=case.resent,
    )
    choice = Choice(want=case.want, rules=run.rules, facts=facts, now=run.now, idle=case.idle)
    return target(choice, run.old(case.want) if case.partner else None, note=case.note)


def _given(run: Lookup, case: Case) -> Sequence[LogRecord] | None:
    """What the query is given of the records behind the place: of aborted transactions nothing, if it reads so."""
    if case.behind is None or case.want.source not in run.rules.committed_only:
        return case.behind
    return [record for record in case.behind if not record.uncommitted]


def _earliest(run: Lookup) -> dict[TopicPartition, int]:
    return {
        key: looked.timestamp_ms
        for key, time in run.answers
        if time == 0 and (looked := run.first_kept(key)) is not None and looked.timestamp_ms is not None
    }
