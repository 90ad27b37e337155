"""The verdict's arithmetic: what was sent, what the clusters hold, what a sink got. Pure.

**By id** (sinks that keep ids) everything is exact.

**By sums** is for sinks that keep a count and the sum of a hash of the ids, by window, topic and partition. There a
partition is right when its rows, over all windows together, are what one reading of its logs gives. A query reads a
partition in order and without gaps, so there are few readings, and the hashes distinguish them:

- *one move*: the primary's log up to one place, then the standby's log from another place to its end. Which two places
  explain the rows is found by trying all; what the query thereby lost or repeated is counted record by record.
- *any number of moves*: every id of the standby once. Of the records that never reached it, the partition's *tail*, a
  beginning. And of the copies that the replicator wrote again an end, if the query does not de-duplicate.
- *still behind*: the same without copies, and of the standby's ids a beginning; the rest is lost if it never comes.

Rows that no such reading explains are wrong. If one run of records that is missing or came twice does not explain them
either, then what was lost and repeated is known only at least, from each window. At least one record counts as lost, so
that no announced repeat ever excuses it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from itertools import accumulate

from lab.truth import Held, Truth

_COUNT = 1 << 128
_HIGH = 1 << 64

Partition = tuple[str, int]
"""A topic, by its name on the primary, and the number of a partition."""
Windows = Mapping[int, int]
"""By the window's start in ms: the sum of the weights of its records."""


@dataclass(frozen=True, kw_only=True)
class QueryVerdict:
    """What became of the records of one query, in records; None is unknown."""

    acked: int
    replicated: int
    """Acknowledged, and on the standby."""
    resent: int
    """Extra copies of one id on the standby."""
    delivered: int
    """Different records that the sink got."""
    lost: int
    """Not delivered, and on the standby, whether a producer learned that it was written or not; or passed over on the
    primary, where a later one was read."""
    duplicated: int
    """Delivered more often than the standby holds them."""
    exposed: int
    """Acknowledged, and not on the standby."""
    late_dropped: int | None
    """Dropped behind the watermark: 0 without one; a sink does not know it, so None with one."""
    judged: str
    """By what: ids or sums, and where no reading explains the sums."""

    @property
    def clean(self) -> bool:
        """Whether nothing was lost and nothing repeated."""
        return not self.lost and not self.duplicated


@dataclass(frozen=True)
class Mistakes:
    """What is wrong with the rows of one partition, in records."""

    lost: int = 0
    duplicated: int = 0
    explained: bool = True


def weigh(identity: int) -> int:
    """One record in a sum: a count of 1, and the first two 32-bit numbers of the MD5 of its id as decimal text."""
    digest = md5(str(identity).encode("ascii"), usedforsecurity=False).digest()
    return _COUNT + int.from_bytes(digest[:4], "big") * _HIGH + int.from_bytes(digest[4:8], "big")


def weight(count: int, high: int, low: int) -> int:
    """Many records in a sum: their count, and the sums of their two numbers; fewer than 2**32 never run together."""
    return count * _COUNT + high * _HIGH + low


def judge_by_id(truth: Truth, deliveries: Mapping[int, int]) -> QueryVerdict:
    """Judge a sink that knows how often each id was delivered."""
    undelivered = sum(max(0, wanted - deliveries.get(identity, 0)) for identity, wanted in truth.wanted.items())
    passed_over = sum(_gaps(tail, deliveries) for topic in truth.topics.values() for tail in topic.tails())
    return _verdict(
        truth,
        delivered=sum(1 for times in deliveries.values() if times),
        lost=undelivered + passed_over,
        duplicated=sum(max(0, times - max(1, truth.copies[identity])) for identity, times in deliveries.items()),
        late_dropped=0,
        judged=f"by {len(truth.wanted):,} ids",
    )


def _gaps(tail: Sequence[int], deliveries: Mapping[int, int]) -> int:
    """How many records of a tail were not delivered, though a later one was."""
    delivered = [bool(deliveries.get(each)) for each in tail]
    read = len(delivered) - delivered[::-1].index(True) if any(delivered) else 0
    return delivered[:read].count(False)


def judge_by_sums(
    truth: Truth, rows: Mapping[Partition, Windows], window_ms: int, *, deduplicates: bool
) -> QueryVerdict:
    """Judge a sink that keeps, by partition and window, the sum of the weights of its records."""
    known = {(name, each) for name, topic in truth.topics.items() for each in (*topic.primary, *topic.standby)}
    lost = duplicated = 0
    unexplained = []
    for name, number in sorted(known | rows.keys()):
        topic = truth.topics.get(name)
        primary, standby = (topic.primary.get(number, ()), topic.standby.get(number, ())) if topic else ((), ())
        found = mistakes(primary, standby, rows.get((name, number), {}), window_ms, deduplicates=deduplicates)
        lost, duplicated = lost + found.lost, duplicated + found.duplicated
        if not found.explained:
            unexplained.append(f"{name}-{number}")
    judged = f"by {sum(map(len, rows.values())):,} sums"
    return _verdict(
        truth,
        delivered=sum(each // _COUNT for windows in rows.values() for each in windows.values()) - duplicated,
        lost=lost,
        duplicated=duplicated,
        late_dropped=None,
        judged=f"{judged}; no reading explains {', '.join(unexplained)}" if unexplained else judged,
    )


def mistakes(
    primary: Sequence[Held], standby: Sequence[Held], windows: Windows, window_ms: int, *, deduplicates: bool
) -> Mistakes:
    """What is wrong with the windows of one partition, given its logs on both clusters."""
    logs = _Logs(primary, standby, window_ms, deduplicates)
    total = sum(windows.values())
    for read in (_one_move, _any_moves, _behind):
        reading = read(logs, total)
        if reading is not None and logs.summed(reading) == dict(windows):
            return Mistakes(
                lost=sum(1 for each in logs.copies if not reading[each]),
                duplicated=sum(max(0, times - max(1, logs.copies[each])) for each, times in reading.items()),
            )
    return _one_run(logs, windows, total) or _bounds(logs, windows)


class _Logs:
    """One partition on both clusters, with what its records weigh and which window each belongs to."""

    def __init__(self, primary: Sequence[Held], standby: Sequence[Held], window_ms: int, deduplicates: bool) -> None:
        self.primary = [each.id for each in primary]
        self.standby = [each.id for each in standby]
        self.deduplicates = deduplicates
        self.weights = {each.id: weigh(each.id) for each in (*primary, *standby)}
        self.starts = {each.id: each.at_ms - each.at_ms % window_ms for each in (*primary, *standby)}
        self.copies = Counter(self.standby)
        """How often the standby holds an id; in the order of first copies."""
        self.tail = [each for each in dict.fromkeys(self.primary) if each not in self.copies]
        """What may be on the primary and is not on the standby, in the primary's order."""
        self.once = sum(self.weights[each] for each in self.copies)

    def extra(self) -> list[int]:
        """The copies of ids that the standby holds already, where a query without de-duplication delivers them."""
        seen: set[int] = set()
        again: list[int] = []
        for each in () if self.deduplicates else self.standby:
            (again.append if each in seen else seen.add)(each)
        return again

    def sums(self, ids: Iterable[int]) -> list[int]:
        """What no record weighs, the first one, the first two, and so on."""
        return list(accumulate((self.weights[each] for each in ids), initial=0))

    def summed(self, reading: Counter[int]) -> dict[int, int]:
        """The rows of a sink to which each id was delivered so often."""
        found: defaultdict[int, int] = defaultdict(int)
        for each, times in reading.items():
            if times:
                found[self.starts[each]] += times * self.weights[each]
        return dict(found)


def _one_move(logs: _Logs, total: int) -> Counter[int] | None:
    """How often each id was delivered by a beginning of the primary and an end of the standby that weigh the total.

    The later the query leaves the primary, the later it must begin on the standby for the count to stay the same: so
    each log is walked through once.
    """
    read = Counter(logs.standby)
    weighed = sum(logs.weights[each] * (1 if logs.deduplicates else times) for each, times in read.items())
    primary, standby = iter(logs.primary), iter(logs.standby)
    while True:
        while weighed // _COUNT > total // _COUNT:
            skipped = next(standby, None)
            if skipped is None:
                return None
            read[skipped] -= 1
            weighed -= 0 if logs.deduplicates and read[skipped] else logs.weights[skipped]
        if weighed == total:
            return Counter({each: 1 if logs.deduplicates else times for each, times in read.items() if times})
        added = next(primary, None)
        if added is None:
            return None
        weighed += 0 if logs.deduplicates and read[added] else logs.weights[added]
        read[added] += 1


def _any_moves(logs: _Logs, total: int) -> Counter[int] | None:
    """How often each id was delivered: once, and with it a beginning of the tail and an end of the extra copies."""
    extra = logs.extra()
    needed = total // _COUNT - len(logs.copies)
    begun, ended = logs.sums(logs.tail), logs.sums(reversed(extra))
    for first in range(max(0, needed - len(extra)), min(needed, len(logs.tail)) + 1):
        if logs.once + begun[first] + ended[needed - first] == total:
            return Counter([*logs.copies, *logs.tail[:first], *extra[len(extra) - (needed - first) :]])
    return None


def _behind(logs: _Logs, total: int) -> Counter[int] | None:
    """How often each id was delivered: once up to where the query is on the standby, and a beginning of the tail."""
    ids, count = list(logs.copies), total // _COUNT
    here, begun = logs.sums(ids), logs.sums(logs.tail)
    for first in range(max(0, count - len(ids)), min(count, len(logs.tail)) + 1):
        if here[count - first] + begun[first] == total:
            return Counter([*ids[: count - first], *logs.tail[:first]])
    return None


def _one_run(logs: _Logs, windows: Windows, total: int) -> Mistakes | None:
    """The mistake by which each id was delivered once, but for one run of records that was left out or came twice."""
    ids = list(logs.copies)
    sums, change = logs.sums(ids), total // _COUNT - len(ids)
    for first in range(len(ids) - abs(change) + 1 if change else 0):
        last = first + abs(change)
        if logs.once + (sums[last] - sums[first]) * (1 if change > 0 else -1) == total:
            reading = Counter(ids)
            (reading.update if change > 0 else reading.subtract)(ids[first:last])
            if logs.summed(reading) == dict(windows):
                return Mistakes(lost=max(0, -change), duplicated=max(0, change))
    return None


def _bounds(logs: _Logs, windows: Windows) -> Mistakes:
    """What was lost and repeated at least, where no reading explains the rows."""
    expected = logs.summed(Counter(dict.fromkeys(logs.copies, 1)))
    doubtful = Counter(logs.starts[each] for each in (*logs.tail, *logs.extra()))
    lost = duplicated = 0
    for start in windows.keys() | expected.keys():
        found, right = windows.get(start, 0), expected.get(start, 0)
        surplus = found // _COUNT - right // _COUNT
        apart = found != right and not surplus and not doubtful[start]  # as many, and not the same ones
        lost += max(0, -surplus) + apart
        duplicated += max(0, surplus - doubtful[start]) + apart
    return Mistakes(lost=max(1, lost), duplicated=duplicated, explained=False)


def _verdict(
    truth: Truth, *, delivered: int, lost: int, duplicated: int, late_dropped: int | None, judged: str
) -> QueryVerdict:
    replicated = sum(1 for identity in truth.acked if identity in truth.copies)
    return QueryVerdict(
        acked=len(truth.acked),
        replicated=replicated,
        resent=truth.copies.total() - len(truth.copies),
        delivered=delivered,
        lost=lost,
        duplicated=duplicated,
        exposed=len(truth.acked) - replicated,
        late_dropped=late_dropped,
        judged=judged,
    )
