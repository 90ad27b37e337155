"""The places of a move as gates judge them, and the one rule for numbers that are not known.

A person who asked for the move sees that a number is unknown and decides. Automatic mode, which nobody watches,
refuses. No gate takes an unknown number for 0.
"""

from collections.abc import Iterable

from orchestrator.decide.move_facts import MoveFacts
from state.model.entities import TopicPartition
from streaming.resume.model import Target


def lets_unknown_pass(facts: MoveFacts) -> bool:
    """Whether a number may be unknown: only where a person asked, and sees that it is."""
    return facts.attended


def sum_of(numbers: Iterable[int | None]) -> int | None:
    """None as soon as one of them is unknown."""
    known = tuple(numbers)
    return None if None in known else sum(number or 0 for number in known)


def seconds_lacking(target: Target) -> float | None:
    """By how many seconds the standby is behind there; where no record is lacking, no time is, whatever clocks say."""
    return 0.0 if target.exposure_records == 0 and target.exposure_seconds is None else target.exposure_seconds


def most_seconds(targets: Iterable[Target]) -> float | None:
    """Of the partition that is furthest behind; None as soon as one of them is unknown, or where there is none."""
    seconds = [seconds_lacking(target) for target in targets]
    known = [each for each in seconds if each is not None]
    return max(known, default=None) if len(known) == len(seconds) else None


def targets_of(facts: MoveFacts) -> tuple[Target, ...]:
    return facts.resumes_at.targets if facts.resumes_at else ()


def named(targets: Iterable[Target]) -> str:
    names = list(dict.fromkeys(f"{target.topic}-{target.partition}" for target in targets))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def place_of(target: Target) -> TopicPartition:
    return TopicPartition(target.target_topic, target.target_partition)
