"""Worlds of which everything is known, what a query rightly delivers in them, and mistakes planted into that."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lab.judge import Partition, QueryVerdict, judge_by_id, judge_by_sums, weigh
from lab.ledger import IDS_PER_RUN, UNKNOWN_OFFSET, Sent
from lab.truth import Held, Topic, Truth

WINDOW_MS = 10_000
_T0_MS = 1_763_000_000_000
_DIRECT = 2
"""The run of traffic that goes to the standby."""


@dataclass
class Lane:
    """One partition: both logs, and how often the query delivered each id."""

    key: Partition
    primary: list[Held]
    standby: list[Held]
    delivered: Counter[int]
    cut: int
    """So many records of the primary were read."""
    repeats: int = 0
    """What the query reads twice without any mistake of its own, because it comes to the standby late."""
    answered: frozenset[int] = frozenset()
    """Ids that the primary acknowledged."""

    def held_once(self) -> list[int]:
        """The ids that the standby holds and that were delivered once, in the order of the standby."""
        return [each for each in dict.fromkeys(held.id for held in self.standby) if self.delivered[each] == 1]

    def __post_init__(self) -> None:
        records = (*self.primary, *self.standby)
        self.starts = {held.id: held.at_ms - held.at_ms % WINDOW_MS for held in records}
        """The window of each id."""


@dataclass
class Planted:
    """One world with what a query delivered in it; mistakes change lanes, or rows."""

    seed: int
    deduplicates: bool
    is_dead: bool
    """Whether the primary cannot be read, so that its order follows from the ledger."""
    lanes: list[Lane]
    moved: list[tuple[Lane, int, int, int]] = field(default_factory=list)
    """Records that the sink counts elsewhere: lane, id, by so many ms of window later, in so many lanes further on."""
    dropped: list[tuple[Partition, int]] = field(default_factory=list)
    """Windows that the sink does not have."""
    added: list[tuple[Partition, int, int]] = field(default_factory=list)
    """Windows that the sink has beside: partition, start, sum of weights."""

    @property
    def repeats(self) -> int:
        return sum(lane.repeats for lane in self.lanes)

    def truth(self) -> Truth:
        found: dict[str, Topic] = {}
        for topic in {lane.key[0] for lane in self.lanes}:
            ours = [lane for lane in self.lanes if lane.key[0] == topic]
            on_primary = [held for lane in ours for held in lane.primary]
            on_standby = [held for lane in ours for held in lane.standby]
            answered = frozenset[int]().union(*(lane.answered for lane in ours))
            found[topic] = Topic.gather(
                sent=[_sent(held, answered) for held in sorted(on_primary, key=lambda held: held.id)],
                direct=[_sent(held, {held.id}) for held in on_standby if held.id // IDS_PER_RUN == _DIRECT],
                primary=() if self.is_dead else on_primary,
                standby=on_standby,
            )
        return Truth(found)

    def rows(self) -> dict[Partition, dict[int, int]]:
        """What a sink by sums holds."""
        rows: dict[Partition, Counter[int]] = {lane.key: Counter() for lane in self.lanes}
        for lane in self.lanes:
            for identity, times in lane.delivered.items():
                if times:
                    rows[lane.key][lane.starts[identity]] += times * weigh(identity)
        for lane, identity, later_ms, further in self.moved:
            other = self.lanes[(self.lanes.index(lane) + further) % len(self.lanes)]
            rows[lane.key][lane.starts[identity]] -= weigh(identity)
            rows[other.key][lane.starts[identity] + later_ms] += weigh(identity)
        for key, start in self.dropped:
            del rows[key][start]
        for key, start, weight in self.added:
            rows[key][start] += weight
        return {key: {start: each for start, each in windows.items() if each} for key, windows in rows.items()}

    def by_sums(self) -> QueryVerdict:
        return judge_by_sums(self.truth(), self.rows(), WINDOW_MS, deduplicates=self.deduplicates)

    def by_id(self) -> QueryVerdict:
        delivered: Counter[int] = Counter()
        for lane in self.lanes:
            delivered.update(lane.delivered)
        return judge_by_id(self.truth(), delivered)


def _sent(held: Held, answered: frozenset[int] | set[int]) -> Sent:
    return Sent(held.id, held.partition, held.offset if held.id in answered else UNKNOWN_OFFSET, held.at_ms)


def world(seed: int, *, returns: bool = False, goes_back: bool = False) -> Planted:
    """Draw a world after one move.

    With ``returns`` all that the primary held has come to the standby in the end. With ``goes_back`` the query has
    moved twice and reads the primary again, where new records came.
    """
    chance = random.Random(seed)
    topics, partitions = (min(chance.randint(1, most), chance.randint(1, most)) for most in (3, 8))  # small ones often
    deduplicates = chance.random() < 0.5
    keys = [(f"topic-{topic}", number) for topic in range(topics) for number in range(partitions)]
    lanes = [_lane(chance, key, number, len(keys), deduplicates, returns) for number, key in enumerate(keys)]
    if goes_back:
        for lane in lanes:
            _go_back(chance, lane)
    return Planted(seed, deduplicates, not returns and not goes_back and chance.random() < 0.5, lanes)


def _lane(chance: random.Random, key: Partition, number: int, step: int, deduplicates: bool, returns: bool) -> Lane:
    """Ids of a lane are equally far apart, so that losing the outer two of four and repeating the inner keeps sums."""
    count = chance.randint(8, 20)
    apart_ms = chance.choice((100, 1_000, 4_000))
    primary = [
        Held(
            IDS_PER_RUN + number + step * each, key[1], 11 + each, _T0_MS + each * apart_ms - chance.choice((0, 0, 900))
        )
        for each in range(count)
    ]
    replicated = chance.randint(6, count - 1) if chance.random() < 0.7 else count
    log = _copied(chance, primary[:replicated])
    cut = chance.randint(0, count)
    place = _place(chance, log, primary[: min(cut, replicated)])
    log += _copied(chance, primary[replicated:]) if returns else []
    base = primary[-1].at_ms
    log += [
        Held(_DIRECT * IDS_PER_RUN + number + step * each, key[1], 0, base + each * apart_ms)
        for each in range(chance.randint(0, 10))
    ]
    standby = [Held(each.id, each.partition, 40 + offset, each.at_ms) for offset, each in enumerate(log)]
    read = [held.id for held in (*primary[:cut], *standby[place:])]
    answered = {held.id for held in primary[: chance.randint(replicated, count)]}
    late = max(0, cut - replicated) if returns and not deduplicates else 0
    return Lane(
        key=key, primary=primary, standby=standby, delivered=Counter(set(read) if deduplicates else read), cut=cut,
        repeats=late, answered=frozenset(answered),
    )  # fmt: skip


def _go_back(chance: random.Random, lane: Lane) -> None:
    """The tail comes over after all, and the query reads the primary again, where new records come: each one once."""
    held, first, second, last = {each.id for each in lane.standby}, *lane.primary[:2], lane.primary[-1]
    tail = [each for each in lane.primary if each.id not in held]
    new = [
        Held(first.id + 2 * IDS_PER_RUN + each * (second.id - first.id), last.partition, last.offset + 1 + each,
             last.at_ms + 700 * each)
        for each in range(chance.randint(0, 9))
    ]  # fmt: skip
    end, copied = lane.standby[-1].offset + 1, chance.randint(0, len(new))
    lane.standby += [replace(each, offset=end + number) for number, each in enumerate((*tail, *new[:copied]))]
    lane.primary += new
    read = new[: chance.randint(copied, len(new))]
    lane.delivered = Counter({each.id for each in (*lane.standby, *read)})
    lane.answered |= {each.id for each in new}
    lane.__post_init__()


def _copied(chance: random.Random, records: list[Held]) -> list[Held]:
    """What a replicator writes that dies at times, and begins again at some earlier record."""
    written: list[Held] = []
    at = 0
    while at < len(records):
        until = chance.randint(at + 1, len(records))
        written += records[at:until]
        at = max(0, until - chance.randint(1, 5)) if chance.random() < 0.3 and until < len(records) else until
    return written


def _place(chance: random.Random, log: list[Held], read: list[Held]) -> int:
    """A right place: behind some copy of the last record read, with a copy of every other one at it or after it."""
    if not read:
        return 0
    done = {held.id for held in read}
    unread = {held.id for held in log} - done
    behind = [place for place in range(1, len(log) + 1) if log[place - 1].id == read[-1].id]
    return chance.choice([place for place in behind if unread <= {held.id for held in log[place:]}])


# -- mistakes: each plants itself, or says that this world has no room for it ---------------------------------------
Mistake = Callable[[Planted, random.Random], bool]


def _lose_before_the_cut(planted: Planted, chance: random.Random) -> bool:
    """The last record that was read on the primary and that the standby has."""
    for lane in chance.sample(planted.lanes, len(planted.lanes)):
        once = set(lane.held_once())
        last = [held.id for held in lane.primary[: lane.cut] if held.id in once][-1:]
        for identity in last:
            lane.delivered[identity] -= 1
            return True
    return False


def _lose_behind_the_cut(planted: Planted, chance: random.Random) -> bool:
    """The first record that was to be read on the standby."""
    for lane in chance.sample(planted.lanes, len(planted.lanes)):
        read = {held.id for held in lane.primary[: lane.cut]}
        for identity in [each for each in lane.held_once() if each not in read][:1]:
            lane.delivered[identity] -= 1
            return True
    return False


def _lose_in_the_middle(planted: Planted, chance: random.Random) -> bool:
    for lane, once in _with(planted, chance, 3):
        lane.delivered[chance.choice(once[1:-1])] -= 1
        return True
    return False


def _pass_over(planted: Planted, chance: random.Random) -> bool:
    """A record of the tail, of which a later one was read."""
    for lane in chance.sample(planted.lanes, len(planted.lanes)):
        held = {each.id for each in lane.standby}
        read = [each.id for each in lane.primary if each.id not in held and lane.delivered[each.id]]
        if len(read) > 1:
            lane.delivered[chance.choice(read[:-1])] -= 1
            return True
    return False


def _repeat(planted: Planted, chance: random.Random) -> bool:
    """One more delivery than the standby has copies."""
    for lane, once in _with(planted, chance, 1):
        identity = chance.choice(once)
        lane.delivered[identity] += max(1, sum(held.id == identity for held in lane.standby))
        return True
    return False


def _lose_and_repeat(planted: Planted, chance: random.Random) -> bool:
    """The count is as it was."""
    for lane, once in _with(planted, chance, 2):
        lost, again = chance.sample(once, 2)
        lane.delivered[lost] -= 1
        lane.delivered[again] += 1
        return True
    return False


def _lose_two_and_repeat_two(planted: Planted, chance: random.Random) -> bool:
    """The count and the sum of the ids are as they were: n and n + 3 lost, n + 1 and n + 2 repeated."""
    for lane, once in _with(planted, chance, 4):
        ids = sorted(once)
        four = [ids[at : at + 4] for at in range(len(ids) - 3)]
        even = [each for each in four if each[0] + each[3] == each[1] + each[2]]
        if even:
            first, second, third, fourth = chance.choice(even)
            lane.delivered.subtract((first, fourth))
            lane.delivered.update((second, third))
            return True
    return False


def _lose_a_window(planted: Planted, chance: random.Random) -> bool:
    for lane, once in _with(planted, chance, 1):
        planted.dropped.append((lane.key, lane.starts[chance.choice(once)]))
        return True
    return False


def _add_a_window(planted: Planted, chance: random.Random) -> bool:
    for lane, once in _with(planted, chance, 1):
        start = max(lane.starts.values()) + WINDOW_MS * chance.randint(1, 5)
        planted.added.append((lane.key, start, sum(map(weigh, chance.sample(once, chance.randint(1, len(once)))))))
        return True
    return False


def _count_in_another_window(planted: Planted, chance: random.Random) -> bool:
    for lane, once in _with(planted, chance, 1):
        planted.moved.append((lane, chance.choice(once), chance.choice((-WINDOW_MS, WINDOW_MS)), 0))
        return True
    return False


def _count_under_another_partition(planted: Planted, chance: random.Random) -> bool:
    """Of its own topic or, where that has one only, of another one."""
    for lane, once in _with(planted, chance, 1) if len(planted.lanes) > 1 else ():
        planted.moved.append((lane, chance.choice(once), 0, chance.randint(1, len(planted.lanes) - 1)))
        return True
    return False


def _with(planted: Planted, chance: random.Random, count: int) -> Iterator[tuple[Lane, list[int]]]:
    """The lanes, in any order, of which the standby holds so many records that were delivered once."""
    for lane in chance.sample(planted.lanes, len(planted.lanes)):
        once = lane.held_once()
        if len(once) >= count:
            yield lane, once


IN_DELIVERIES: Mapping[str, Mistake] = {
    "one lost right before the cut": _lose_before_the_cut,
    "one lost right behind the cut": _lose_behind_the_cut,
    "one lost in the middle": _lose_in_the_middle,
    "one passed over in the tail": _pass_over,
    "one repeated": _repeat,
    "one lost and one repeated": _lose_and_repeat,
    "two lost and two repeated, the sum of the ids kept": _lose_two_and_repeat_two,
}
"""Mistakes that a sink by id can have, too."""
IN_ROWS: Mapping[str, Mistake] = {
    "a window missing": _lose_a_window,
    "a window too many": _add_a_window,
    "one counted in another window": _count_in_another_window,
    "one counted under another partition": _count_under_another_partition,
}
MISTAKES = {**IN_DELIVERIES, **IN_ROWS}
