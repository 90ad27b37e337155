"""Places of queries that read what is not committed, and of those that do not, behind either kind of replicator.

A random old log of several transactional producers, read up to a random offset, and a standby that got all records of
it or only what a read_committed consumer is given; judged by plain sets of old offsets.
"""

import random
from dataclasses import dataclass, field, replace

import pytest

from state.settings.keys import MethodName
from streaming.resume.gaps import PartialSearch, better
from streaming.resume.methods.content_search import Cause, Found, NoPlace
from streaming.resume.methods.fingerprint_match import FingerprintMatcher
from streaming.resume.model import Rules, Target, Want
from tests.unit.streaming.standby import T0, Slot, copied, one, ring, rules, sample, standby, stream, want

EXACT = rules(MethodName.EXACT)
COMMITTED = replace(EXACT, committed_only=frozenset({"orders"}))
Record = tuple[int, int, str]


@dataclass
class Log:
    """A partition with transactions: its data records, and how each one's ended."""

    records: list[Record] = field(default_factory=list)
    ended: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """Per record of a transaction that has ended: the offset of its marker, and whether that commits."""
    transactional: set[int] = field(default_factory=set)
    end: int = 0

    def append(self, *, transactional: bool) -> int:
        offset, self.end = self.end, self.end + 1
        self.records.append((offset, T0 + 10 * offset, f"r{offset}"))
        if transactional:
            self.transactional.add(offset)
        return offset

    def mark(self, transaction: list[int], *, commits: bool) -> None:
        self.ended |= dict.fromkeys(transaction, (self.end, commits))
        self.end += 1

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min((offset for offset in self.transactional if offset not in self.ended), default=self.end)

    def is_committed(self, offset: int, by: int) -> bool:
        marker, commits = self.ended.get(offset, (by, False))
        return offset not in self.transactional or (commits and marker < by)

    def read_by(self, *, committed_only: bool) -> list[Record]:
        """What a consumer is given of it."""
        if not committed_only:
            return list(self.records)
        return [each for each in self.records if each[0] < self.stable and self.is_committed(each[0], self.end)]


def written(rnd: random.Random) -> Log:
    log = Log()
    open_ones: dict[int, tuple[int, ...]] = dict.fromkeys(range(rnd.choice([1, 1, 2, 3])), ())
    aborting, longest = rnd.choice([0.1, 0.5, 0.9]), rnd.choice([2, 8, 40])
    for _ in range(rnd.randint(1, 25)):
        if rnd.random() < 0.2:
            for _ in range(rnd.randint(1, 30)):
                log.append(transactional=False)
        producer = rnd.choice(list(open_ones))
        sent = [log.append(transactional=True) for _ in range(rnd.randint(1, longest))]
        open_ones[producer] = (*open_ones[producer], *sent)
        if rnd.random() < 0.7:
            log.mark(list(open_ones[producer]), commits=rnd.random() > aborting)
            open_ones[producer] = ()
    return log


def position(log: Log, offset: int, *, committed_only: bool, remembered: int) -> Want:
    """Where a query is that has read up to an offset, with what its tracker knows by then."""
    read = [each for each in log.read_by(committed_only=committed_only) if each[0] < offset][-remembered:]
    unsure = frozenset() if committed_only else {each for each, _, _ in read if not log.is_committed(each, offset)}
    return replace(want(read), offset=offset, ring_offset=offset, uncommitted=frozenset(unsure))


def judged(log: Log, target: Target, offset: int, copies: list[Record], *, committed_only: bool) -> tuple[int, int]:
    """How many unread records the standby has before the place, how many read ones behind it."""
    given = {each for each, _, _ in log.read_by(committed_only=committed_only)}
    assert target.target_offset is not None
    before, behind = copies[: target.target_offset], copies[target.target_offset :]
    lost = sum(each >= offset and each in given for each, _, _ in before)
    return lost, sum(each < offset and each in given for each, _, _ in behind)


def placed(seed: int, *, query: bool, replicator: bool, using: Rules) -> tuple[Target, tuple[int, int], int]:
    rnd = random.Random(seed)
    log = written(rnd)
    offset = rnd.randint(1, log.stable if query else log.end) if log.stable else 1
    copies = log.read_by(committed_only=replicator)
    copies = copies[: len(copies) - rnd.choice([0, 0, 0, 1, 20])]
    known = position(log, offset, committed_only=query, remembered=rnd.choice([32, 48, 256]))
    target = one(standby(Slot(copied(copies))), known, using, sample(log.end, None))
    if target.target_offset is None:
        return target, (0, 0), 0
    to_come = [each for each, _, _ in log.read_by(committed_only=False)[:] if each < offset]
    there = {each for each, _, _ in copies}
    absent = sum(each not in there and log.is_committed(each, log.end) for each in to_come)
    return target, judged(log, target, offset, copies, committed_only=query), absent


@pytest.mark.parametrize("replicator", [False, True], ids=["all", "committed"])
@pytest.mark.parametrize("query", [False, True], ids=["read_uncommitted", "read_committed"])
def test_an_exact_place_loses_and_repeats_nothing_behind_either_replicator(query: bool, replicator: bool) -> None:
    using = COMMITTED if query else EXACT
    exact = found = 0
    for seed in range(80):
        target, (lost, repeated), _ = placed(seed, query=query, replicator=replicator, using=using)
        if target.target_offset is None:
            continue
        found += 1
        assert lost == 0, f"seed {seed}: {target}"
        if target.exact:
            exact += 1
            assert repeated == 0, f"seed {seed}: {target}"
        elif target.replay_records is not None:
            assert repeated <= target.replay_records, f"seed {seed}: {target}"
    assert found > 60
    assert exact > 25


def test_later_records_never_exceed_the_forecast() -> None:
    for seed in range(80):
        target, _, absent = placed(seed, query=False, replicator=True, using=EXACT)
        if target.target_offset is not None and target.replay_later_records is not None:
            assert absent <= target.replay_later_records, f"seed {seed}: {target}"


def aborted_last(*, after: int) -> Log:
    """Forty committed records, ten that are aborted, and some that no one has read yet."""
    log = Log()
    for _ in range(40):
        log.append(transactional=False)
    log.mark([log.append(transactional=True) for _ in range(10)], commits=False)
    for _ in range(after):
        log.append(transactional=False)
    return log


def test_aborted_records_that_were_read_are_not_reread_from_the_standby() -> None:
    log = aborted_last(after=5)
    known = position(log, 51, committed_only=False, remembered=32)
    target = one(standby(Slot(copied(log.records))), known, EXACT)
    assert (target.target_offset, target.exact, target.replay_records) == (50, True, 0)


def test_aborted_records_are_not_waited_for_where_the_standby_has_none() -> None:
    log = aborted_last(after=5)
    known = position(log, 51, committed_only=False, remembered=32)
    seen = sample(log.end, log.records[-1][1])
    target = one(standby(Slot(copied(log.read_by(committed_only=True)))), known, EXACT, seen)
    assert (target.target_offset, target.exact, target.replay_records) == (40, True, 0)
    assert target.replay_later_records == 0
    assert "the standby lacks 10 of the last 32 records read" in target.note


@pytest.mark.parametrize("end", [None, 51, 52])
def test_a_record_that_no_sample_saw_does_not_end_the_wait_for_others(end: int | None) -> None:
    """It is newer than the last sample, if there is one, and may as well be another writer's."""
    log = aborted_last(after=5)
    known = position(log, 51, committed_only=False, remembered=32)
    seen = None if end is None else sample(end, max(each[1] for each in log.records if each[0] < end))
    there = log.read_by(committed_only=True)
    target = one(standby(Slot(copied([*there[:40], *there[41:]]))), known, EXACT, seen)
    assert (target.target_offset, target.exact, target.replay_later_records) == (40, False, 10)


def test_uncommitted_records_may_come_later_if_the_standby_ends_there() -> None:
    log = aborted_last(after=0)
    known = position(log, 51, committed_only=False, remembered=32)
    target = one(standby(Slot(copied(log.read_by(committed_only=True)))), known, EXACT)
    assert (target.target_offset, target.exact, target.replay_later_records) == (40, False, 10)


def test_an_old_record_sent_again_does_not_end_the_wait_for_later_ones() -> None:
    log = aborted_last(after=0)
    known = position(log, 51, committed_only=False, remembered=32)
    copies = [*log.read_by(committed_only=True), *log.records[:4]]
    target = one(standby(Slot(copied(copies))), known, EXACT)
    assert (target.target_offset, target.exact, target.replay_records) == (40, False, 4)
    assert target.replay_later_records == 10 + 36, "what is not committed, and the rest of the copy that began"


def test_a_standby_with_aborted_records_is_not_exact_for_read_committed() -> None:
    log = Log()
    for _ in range(40):
        log.append(transactional=False)
    log.mark([log.append(transactional=True) for _ in range(3)], commits=False)
    for _ in range(30):
        log.append(transactional=False)
    known = position(log, 50, committed_only=True, remembered=32)
    everything = one(standby(Slot(copied(log.records))), known, COMMITTED)
    assert (everything.target_offset, everything.exact) == (49, False)
    assert "3 of the 35 records before the resume offset" in everything.note
    assert "about 2 of the 24 after it" in everything.note
    assert "isolation.level" in everything.note
    clean = one(standby(Slot(copied(log.read_by(committed_only=True)))), known, COMMITTED)
    assert (clean.target_offset, clean.exact, clean.note) == (46, True, "")


def test_a_long_aborted_transaction_does_not_hide_earlier_records() -> None:
    log = Log()
    for _ in range(60):
        log.append(transactional=False)
    log.mark([log.append(transactional=True) for _ in range(70)], commits=False)
    for _ in range(40):
        log.append(transactional=False)
    known = position(log, 135, committed_only=True, remembered=32)
    target = one(standby(Slot(copied(log.records))), known, COMMITTED)
    assert (target.target_offset, target.replay_records) == (134, 0)


def test_records_after_the_ring_are_not_counted_if_they_may_be_aborted() -> None:
    log = Log()
    log.mark([log.append(transactional=True) for _ in range(40)], commits=True)
    log.mark([log.append(transactional=True) for _ in range(20)], commits=False)
    for _ in range(50):
        log.append(transactional=False)
    known = replace(position(log, 44, committed_only=False, remembered=32), offset=60, dense=True)
    target = one(standby(Slot(copied(log.read_by(committed_only=True)))), known, EXACT)
    assert target.target_offset == 40, "twenty records that the query has not read lie behind"
    assert not target.exact


@pytest.mark.parametrize(
    ("exact", "missing", "offset", "taken"),
    [(True, 2, 5, True), (True, None, 4, True), (False, 2, 5, False), (True, 0, 5, False), (True, 2, 6, False)],
)
def test_a_place_by_what_the_standby_can_hold_says_more_and_skips_no_more(
    exact: bool, missing: int | None, offset: int, taken: bool
) -> None:
    whole, partial = Found(5, exact=False, missing=missing), Found(offset, exact=exact)
    assert better(whole, partial) is taken
    nowhere = NoPlace(Cause.MISMATCH)
    assert [better(nowhere, partial), better(whole, nowhere), better(whole, None)] == [True, False, False]


def test_a_log_without_transactions_is_counted_over_as_ever() -> None:
    log = stream(0, 100)
    known = want(log[:60], untracked=16, dense=True)
    target = one(standby(Slot(copied(log))), known, EXACT, sample(100, log[-1][1]))
    assert (target.target_offset, target.exact) == (60, True)


def test_by_committed_records_alone_the_whole_ring_is_looked_for_too() -> None:
    """The last committed record equals older ones. The standby lacks it, and "u" and an equal record are unread."""
    times = {3: 0, 4: 0, 9: 10, 11: 0, 13: 30, 14: 0, 17: 40}
    read = [(offset, T0 + time, "hb") for offset, time in times.items()]
    here = copied([*(each for each in read if each[0] not in (11, 14, 17)), (39, T0 + 20, "u"), (40, T0, "hb")])
    target = one(standby(Slot(here)), replace(want(read), uncommitted=frozenset({17})), rules(buffer_ms=100))
    assert target.target_offset is not None
    assert target.target_offset <= 4
    assert not target.exact


def test_an_answer_by_the_end_of_the_log_holds_for_the_whole_ring_only() -> None:
    """Its caller searches again from further back, where the end decided."""
    old = stream(0, 30)
    here = Slot(copied(old[:20])).answers
    search = PartialSearch(FingerprintMatcher(ring(old[:29]), 16), FingerprintMatcher(ring(old), 16), lo=0, end=20)
    found = search.feed(here, 20)
    assert isinstance(found, Found)
    assert (found.offset, found.missing, search.is_by_end) == (20, 10, True)
