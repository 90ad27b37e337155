"""The places of a move as gates judge them, and the one rule for numbers that are not known.

A person who requested the move sees that a number is unknown and decides. Automatic mode, which no person watches,
refuses. No gate takes an unknown number for 0.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from orchestrator.decide.move_facts import MoveFacts
from state.plain_text import few
from streaming.resume.model import AtMost, Resolution, Target


def lets_unknown_pass(facts: MoveFacts) -> bool:
    """Whether a number may be unknown: only where a person requested the move, and sees that it is."""
    return facts.attended


def sum_of(numbers: Iterable[int | None]) -> int | None:
    """None as soon as one of them is unknown."""
    known = tuple(numbers)
    return None if None in known else sum(number or 0 for number in known)


def total_of(numbers: Iterable[int | None]) -> int | None:
    """None as soon as one of them is unknown, and where there is none to add."""
    known = tuple(numbers)
    return sum_of(known) if known else None


def seconds_lacking(target: Target) -> float | None:
    """By how many seconds the standby is behind there; where no record is lacking, no time is, whatever clocks say."""
    return 0.0 if target.exposure_records == 0 and target.exposure_seconds is None else target.exposure_seconds


def most_seconds(targets: Iterable[Target]) -> float | None:
    """Of the partition that is furthest behind; None as soon as one of them is unknown, or where there is none."""
    seconds = [seconds_lacking(target) for target in targets]
    known = [each for each in seconds if each is not None]
    return max(known, default=None) if len(known) == len(seconds) else None


def exposed_at_most(target: Target) -> int | None:
    """How many records the standby lacks there at most, whether that is known or only bounded."""
    bound = None if target.at_most is None else target.at_most.exposure_records
    return bound if target.exposure_records is None else target.exposure_records


def repeated_later_at_most(target: Target) -> int | None:
    """How many records come again at most, whether that is known or only bounded."""
    bound = None if target.at_most is None else target.at_most.replay_later_records
    return bound if target.replay_later_records is None else target.replay_later_records


def seconds_at_most(target: Target) -> float | None:
    """By how many seconds the standby is behind there at most; a number of records without a bound in time has none."""
    known, bound = seconds_lacking(target), target.at_most
    if bound is None or target.exposure_records is not None:
        return known
    return max(known or 0.0, bound.exposure_seconds) if bound.exposure_seconds is not None else None


def most_of(targets: Sequence[Target]) -> AtMost | None:
    """What all partitions come to at most, where the numbers of some are only bounded; None where one has no bound."""
    if all(target.at_most is None for target in targets):
        return None
    exposed = sum_of(exposed_at_most(target) for target in targets)
    later = sum_of(repeated_later_at_most(target) for target in targets)
    seconds = [seconds_at_most(target) for target in targets]
    if exposed is None or later is None:
        return None
    known = [each for each in seconds if each is not None]
    most = max(known) if known and len(known) == len(seconds) else None
    return AtMost(exposure_records=exposed, exposure_seconds=most, replay_later_records=later, by="")


def nothing_later(resolution: Resolution, topics: Collection[str]) -> Resolution:
    """The places where no replicator appends to these topics of the target any more.

    What was read and is lacking there is not read twice. It stays in the exposure.
    """
    targets = tuple(_settled(each) if each.target_topic in topics else each for each in resolution.targets)
    return replace(resolution, targets=targets)


def _settled(target: Target) -> Target:
    if target.target_offset is None or target.replay_later_records == 0:
        return target
    most = None if target.at_most is None else replace(target.at_most, replay_later_records=0)
    return replace(target, replay_later_records=0, at_most=most)


def targets_of(facts: MoveFacts) -> tuple[Target, ...]:
    return facts.resumes_at.targets if facts.resumes_at else ()


def named(targets: Iterable[Target]) -> str:
    return few(list(dict.fromkeys(f"{target.topic}-{target.partition}" for target in targets)))
