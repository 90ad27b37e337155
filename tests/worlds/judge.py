"""The judge: what is false in a target, by the truth of its world. It takes nothing from the resolver but the target.

The contract (``docs/places.md``): nothing that the standby holds is skipped in silence. ``exact`` is right. A number
is an upper bound or unknown. And where nothing speaks against it the place is exact.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streaming.resume.model import Target
from tests.worlds.plain import is_plain
from tests.worlds.spread import is_evident, truth_of
from tests.worlds.truth import Truth
from tests.worlds.world import World, Written

SAYS_SO = re.compile(r"\b(?:may|can) (?:have been|have|be|skip|lose|miss)\b[^;]*|\b(?:skips|loses) records\b")
"""A note that says that records may be missed."""
SEES_IT = "does not hold the records it held on the old cluster"
"""A note that says that the topic goes by common time: then another partitioner is no excuse."""
MAY_LOSE = frozenset({"latest", "closest"})
"""Policies that an operator chose, and that may skip records by contract."""
BY_TIME = frozenset({"timestamp", "segment"})


NUMBERS = frozenset({"later", "replay", "exposure", "seconds", "expired"})
"""Kinds of findings in a forecast: too small, or silent about what retention deleted; all others are of places."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One false claim of one target."""

    kind: str
    """``lost``, ``expired``, ``exact``, ``replay``, ``later``, ``exposure``, ``seconds``, ``bounds``, ``useless``;
    of ``play``: ``crash``, ``order``."""
    partition: int
    text: str


def judge(world: World, targets: Sequence[Target]) -> list[Finding]:
    """Every false claim, in the order of the partitions. Raises ValueError unless each partition has one target."""
    numbers = sorted(target.target_partition for target in targets)
    if numbers != list(range(len(world.partitions))):
        raise ValueError(f"targets of the partitions {numbers}, not one for each of {len(world.partitions)}")
    found = []
    for target in targets:
        truth = truth_of(world, target.target_partition)
        found += [Finding(kind, target.target_partition, text) for kind, text in _claims(truth, target)]
    return found


def _claims(truth: Truth, target: Target) -> Iterable[tuple[str, str]]:
    if target.target_offset is None:
        if is_plain(truth.world):
            yield "useless", f"no offset: {target.note}"
        return
    place = target.target_offset
    yield from _bounds(truth, target, place)
    if truth.world.spread and not (is_evident(truth.world) or SEES_IT in target.note):
        return
    yield from _losses(truth, target, place)
    yield from _exact(truth, target, place)
    yield from _numbers(truth, target, place)
    if is_plain(truth.world) and not _is_of_use(truth, target):
        yield (
            "useless",
            f"a plain world: exact at {truth.ideal()} is right, got {place} by {target.method}: {target.note}",
        )


def _is_of_use(truth: Truth, target: Target) -> bool:
    """The right place; exact where all that was read is there, else with known numbers of what is yet to come."""
    known = None not in (target.replay_records, target.replay_later_records)
    return target.target_offset == truth.ideal() and (target.exact or (known and bool(truth.to_come())))


def _bounds(truth: Truth, target: Target, place: int) -> Iterable[tuple[str, str]]:
    if place > truth.visible_end:
        yield "bounds", f"{place} is after the end that the query can see, {truth.visible_end}"
    if place < truth.partition.kept_begin and not target.expired and truth.expired():
        yield (
            "bounds",
            f"{place} is before the begin {truth.partition.kept_begin}, and unread records are deleted there",
        )
    numbers = (target.replay_records, target.replay_later_records, target.exposure_records)
    if any(number is not None and number < 0 for number in numbers):
        yield "bounds", f"a negative number: {numbers}"


def _losses(truth: Truth, target: Target, place: int) -> Iterable[tuple[str, str]]:
    times = {row.offset: row.time for row in truth.partition.kept}
    last = {of: max(times[at] for at in truth.shown[of]) for of in truth.skipped(place)}
    skipped = [of for of, time in last.items() if not _is_out_of_reach(truth, target, time)]
    others = [at for at in truth.strangers(place) if not _is_out_of_reach(truth, target, times[at])]
    if target.method == "synced" and truth.is_first_unread(place):
        others = []  # section 4, synced: the place is the sync point, whatever others wrote before it
    if target.method == "synced" and truth.hides_a_restart:
        skipped = (
            others
        ) = []  # docs/places.md: the pairs from before a re-send are gone, and the oldest one is believed
    admits = target.expired or target.method in MAY_LOSE or (not target.exact and SAYS_SO.search(target.note))
    if skipped and not admits:
        yield "lost", f"{_some(skipped)} unread, held by the standby only before {place}"
    if others and not admits:
        yield "lost", f"{_some(others)} of other writers, behind all that was read and before {place}"
    known = truth.time_known()
    since = -1 if known is None or target.exact else known - truth.world.buffer_ms
    expired = [of for of in truth.expired() if truth.ahead[of].time >= since]
    if expired and not target.expired and (target.exact or truth.is_in_order()):
        yield "expired", f"{_some(expired)} unread, deleted by the standby's retention, and the target does not say so"


def _is_out_of_reach(truth: Truth, target: Target, time: int) -> bool:
    """By time nothing is promised of records that the standby dates before T minus the buffer."""
    if target.exact or target.method not in BY_TIME:
        return False
    known = truth.time_known()
    return known is not None and time < known - truth.world.buffer_ms


def _exact(truth: Truth, target: Target, place: int) -> Iterable[tuple[str, str]]:
    if not target.exact:
        return
    skipped, early = truth.skipped(place), truth.first_read_from(place)
    if skipped:
        yield "exact", f"said to be exact at {place}, which skips {_some(skipped)}"
    if others := truth.strangers(place):
        yield "exact", f"said to be exact at {place}, which skips {_some(others)} of other writers"
    if early:
        yield "exact", f"said to be exact at {place}, but the first copies of {_some(early)}, all read, lie behind it"
    if truth.expired():
        yield "exact", "said to be exact, though unread records were deleted"


def _numbers(truth: Truth, target: Target, place: int) -> Iterable[tuple[str, str]]:
    replay, later = target.replay_records, target.replay_later_records
    end = truth.visible_end
    if truth.world.lie is not None and truth.world.lie.kind == "stale-end":
        end = min(end, end if target.end is None else target.end)  # what lies behind it came later, for all it knows
    now, soon, coming = truth.repeated(place, end), truth.withheld(place, end), len(truth.to_come())
    if replay is not None and replay < now:
        yield "replay", f"replay {replay}, but {now} records from {place} on were read before"
    if later is not None and later < coming:
        yield "later", f"replay later {later}, but {coming} that were read are yet to be appended"
    if None not in (replay, later) and (replay or 0) + (later or 0) < now + soon + coming:
        yield "replay", f"replay {replay} and later {later}, but {now} + {soon} in open transactions + {coming} to come"
    if target.exact and replay is not None and replay > now + soon:
        yield "replay", f"exact with a replay of {replay}, but only {now + soon} records there were read before"
    if not truth.world.spread:  # then the old partition of that number is elsewhere, too
        yield from _exposure(truth, target)


def _exposure(truth: Truth, target: Target) -> Iterable[tuple[str, str]]:
    """Each record of another writer among the copies, as old as they are, may stand in for one (``seems_copied``)."""
    lacking, alike = truth.lacking(also_expired=not target.expired), truth.seems_copied()
    if target.exposure_records is not None and target.exposure_records + alike < len(lacking):
        wanted = [each.offset for each in lacking]
        yield "exposure", f"exposure {target.exposure_records}, but the standby lacks {_some(wanted)}, acknowledged"
    spread = _spread(truth, lacking) / 1000
    if target.exposure_seconds is not None and target.exposure_seconds < spread and not alike:
        yield "seconds", f"exposure of {target.exposure_seconds} s, but what the standby lacks spans {spread} s"


def _spread(truth: Truth, lacking: Sequence[Written]) -> int:
    """Milliseconds between the oldest and the newest of them, where the old log's times were in order.

    Seconds go by largest timestamps (``docs/places.md``): of what the standby lacks behind its newest copy. Holes
    before that one count as records alone, unless there are only holes. A time ahead of the clock that the log was
    sampled by says nothing.
    """
    written, sample = truth.partition.written, truth.partition.sample
    times = [each.time for each in written]
    if not lacking or sample is None or times != sorted(times):
        return 0
    newest = max((of for of in truth.ahead if of in truth.shown), default=-1)
    if any(newest < each.offset < sample.end for each in written):
        lacking = [each for each in lacking if each.offset > newest]
    return 0 if not lacking else min(lacking[-1].time, sample.at) - min(lacking[0].time, sample.at)


def _some(offsets: Sequence[int]) -> str:
    shown = ", ".join(map(str, offsets[:6]))
    return f"{len(offsets)} records ({shown}{', ...' if len(offsets) > 6 else ''})"
