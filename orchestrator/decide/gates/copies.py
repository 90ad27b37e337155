"""Gates of moves that wait for copies: what was read is on the target, and what is written there lies behind it."""

from collections.abc import Sequence

from orchestrator.decide.gates.gate import UNKNOWN, Gate, answer
from orchestrator.decide.move_facts import PENDING, MirrorAnswer, MoveFacts
from orchestrator.decide.places import lets_unknown_pass, named, sum_of, targets_of
from state.plain_text import amount
from streaming.resume.model import Target

CAUGHT_UP = "caught-up"
OUTPUT_COPIED = "output-copied"
WAITED_FOR = frozenset({CAUGHT_UP, OUTPUT_COPIED})
"""The gates that a planned move waits at: the standby may have by and by what it lacks."""


def caught_up(facts: MoveFacts) -> Gate | None:
    """A planned move loses nothing and repeats nothing: every place is exact, and every record read is there."""
    if facts.resumes_at is None or not facts.planned:
        return None
    targets = targets_of(facts)
    later = sum_of(target.replay_later_records for target in targets if not is_caught_up(target))
    read = f"that {facts.query} has read"
    lacks = f"{later} records {read}" if later else f"records {read}, or holds some of them twice: how many is unknown"
    return _awaited(facts, CAUGHT_UP, targets, f"every record {read}", lacks)


def output_copied(facts: MoveFacts) -> Gate | None:
    """What the query writes on the target lies behind the copies of all that it has written before.

    A query downstream follows later and continues behind the copy of the last record that it has read. What was written
    to the target before that copy came would lie in front of it, and would never be read.
    """
    if facts.written is None or not facts.planned:
        return None
    written = f"of {facts.handed_on}, which {facts.query} writes and another query reads"
    return _awaited(facts, OUTPUT_COPIED, facts.written, f"every record {written}", f"records {written}")


def _awaited(facts: MoveFacts, gate: str, targets: Sequence[Target], every: str, some: str) -> Gate:
    """A gate at which a planned move waits until the target has ``every`` record; ``some`` are what it lacks."""
    behind = [target for target in targets if not is_caught_up(target)]
    waits = facts.fence == PENDING and all(target.replay_later_records for target in behind)
    worst = max(behind, key=lambda target: target.replay_later_records or 0, default=None)
    why = (worst.note or "its resume offset is not exact") if worst is not None else ""
    lacks = f"{facts.target} lacks {some}"
    return answer(
        gate,
        not behind or waits,
        f"{len(targets) - len(behind)} of {len(targets)} partitions",
        amount(len(targets), "partition"),
        f"{facts.target} has {every}"
        if not behind
        else f"{lacks}; the move waits for them, for at most {facts.policy.catch_up.total_seconds():g} s "
        "(policy.catch_up)",
        f"{lacks} ({named(behind)}: {why})",
    )


def mirror_stopped(facts: MoveFacts) -> Gate | None:
    """Copies that are mirrors still take no producer, and their end may be cut later (consent ``replication``)."""
    if facts.mirrors is None:
        return None
    found = facts.mirrors
    count = len(found.stopped) + len(found.running)
    silent = found.error or ("" if count else f"the replicator says nothing of a topic of {facts.query}")
    odd = silent or _still(found, facts.target)
    consented = bool(odd) and "replication" in facts.consents
    return answer(
        "mirror-stopped",
        not odd or consented,
        "no answer" if silent else f"{len(found.stopped)} of {count} topics",
        "an answer of the replicator" if silent else amount(count, "topic"),
        "consent replication is given" if consented else f"no topic on {facts.target} is a mirror any more",
        f"{odd}; --consent replication accepts it",
    )


def _still(found: MirrorAnswer, target: str) -> str:
    """What is to be done about mirrors; empty where there are none."""
    unknown = sorted(topic for topic, word in found.running.items() if word is None)
    if unknown:
        return f"the replicator knows no mirror {', '.join(unknown)} on {target}: correct routes.replicator"
    if not found.running:
        return ""
    words = ", ".join(f"{topic} ({word})" for topic, word in sorted(found.running.items()))
    return (
        f"still mirrors on {target}: {words}. No producer can write there, and the end of the log may be cut. Fail "
        "them over, or promote them"
    )


def not_beyond_mirrored(facts: MoveFacts) -> Gate | None:
    """A query resumes behind nothing that producers have written on the target itself (consent ``gap``).

    Copies keep their offsets. So behind the end of a mirror that was stopped lie other records, which producers have
    written there since. The query has read none of them, however far it had come on the source.
    """
    if facts.resumes_at is None or facts.mirrors is None or not facts.mirrors.ends:
        return None
    ends = facts.mirrors.ends
    met = [(target, ends[target.there]) for target in targets_of(facts) if target.there in ends]
    beyond = [(target, end) for target, end in met if target.target_offset is not None and target.target_offset > end]
    first = "".join(
        f"{target.topic}-{target.partition} would resume at {target.target_offset}, and was mirrored up to {end} only"
        for target, end in beyond[:1]
    )
    return answer(
        "not-beyond-mirrored",
        not beyond or "gap" in facts.consents,
        amount(len(beyond), "partition"),
        "0 partitions",
        "consent gap is given" if beyond else f"no resume offset is beyond what was mirrored ({len(met)} compared)",
        f"{first}: what producers have written on {facts.target} between the two would never be read "
        f"({named(target for target, _ in beyond)}); --consent gap skips it",
    )


def upstream_output(facts: MoveFacts) -> Gate | None:
    """What an upstream query has written on the target lies behind where this one resumes.

    It moved there before, and records of its topic were copied after that. They came out of a tail that came back to
    life, or because another program writes to that topic, too. This query has read them on the source and continues
    behind their copies, past all that the other one wrote on the target since (consent ``gap``).
    """
    if not facts.begun or facts.resumes_at is None:
        return None
    met = [(target, *facts.begun[target.there]) for target in targets_of(facts) if target.there in facts.begun]
    unknown = sorted({name for target, name, end in met if end is None or target.target_offset is None})
    passed = [
        (target, name, target.target_offset - end)
        for target, name, end in met
        if end is not None and target.target_offset is not None and target.target_offset > end
    ]
    names = ", ".join(sorted({name for _, name, _ in passed}))
    most = sum(records for _, _, records in passed)
    if unknown and not passed:
        text = f"it is unknown where {', '.join(unknown)} began to write on {facts.target}"
        return answer(
            "upstream-output",
            lets_unknown_pass(facts) or "gap" in facts.consents,
            UNKNOWN,
            "0 partitions",
            text,
            f"{text}: {facts.query} could resume after its records and never read them; --consent gap accepts it",
        )
    return answer(
        "upstream-output",
        not passed or "gap" in facts.consents,
        amount(len(passed), "partition"),
        "0 partitions",
        "consent gap is given" if passed else f"{facts.query} resumes before all that its upstream queries wrote there",
        f"{facts.query} would resume after records that {names} may have written since it moved to {facts.target}, up "
        f"to {most}, and never read them ({named(target for target, _, _ in passed)}). Records were copied after that "
        "move; --consent gap accepts the loss",
    )


def is_caught_up(target: Target) -> bool:
    """Whether a query that continues there reads each record once, now and later."""
    return target.exact and target.replay_records == 0 and target.replay_later_records == 0
