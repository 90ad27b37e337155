"""What becomes of a position whose log was cut, or created again, in the cluster that it was read from. Pure.

A standby's log is not cut with it. Where the very records that were read are found there, the query continues behind
them, and what the new leader wrote instead comes after. Else the position denotes records that may never have been
copied, and the reset table of the KIP-320 draft decides (``streaming.resume.truncation``). The position goes back to
where the logs part where that is known, as Kafka's consumer does, else by policy. Under ``fail`` the move is refused,
as the consumer raises ``LogTruncationException``. The consent ``gap`` stands for the row ``closest``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.decide.lookup_wants import is_cut_off, is_recreated, newest_of
from orchestrator.decide.move_facts import Reset
from state.messages import Offsets
from state.model.entities import EndSample, Position, TopicPartition
from state.model.plan import TruncatedPartition
from streaming.resume.model import Resolution, Target, Want
from streaming.resume.truncation import TABLE, Finding, Goto, Standing

Place = tuple[str, str, int]
"""Source, old topic, partition."""


def tracked_at(positions: Iterable[Position], offsets: Offsets) -> list[Position]:
    """In each partition the newest position that is not past the checkpoint's."""
    return newest_of(
        row
        for row in positions
        if row.offset <= offsets.get(row.source, {}).get(row.topic, {}).get(str(row.partition), 0)
    )


def sampled_standings(
    positions: Sequence[Position], ends: Mapping[TopicPartition, EndSample]
) -> tuple[Standing, ...] | None:
    """What the last samples of a cluster that does not answer show against positions; None where they show nothing.

    A log that has grown past the position again looks whole in them; only the cluster's leader epochs would show it.
    """
    found = []
    for row in positions:
        key = TopicPartition(row.topic, row.partition)
        sample = ends.get(key)
        if sample is None:
            continue
        if is_recreated(row, sample):
            note = f"the topic was recreated: its id was {row.topic_id} and is now {sample.topic_id}"
            found.append(_gone(row, Finding.RECREATED, 0, note))
        elif is_cut_off(row, sample):
            note = f"a later leader's log ended at {sample.end}, before the position"
            found.append(_gone(row, Finding.TRUNCATED, None, note))
    return tuple(found) or None


def _gone(row: Position, finding: Finding, divergence: int | None, note: str) -> Standing:
    partition = TopicPartition(row.topic, row.partition)
    return Standing(
        source=row.source, partition=partition, offset=row.offset, finding=finding, divergence=divergence, note=note
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedPosition:
    """A position as it was wanted, and the place that was found for it."""

    want: Want
    target: Target

    @property
    def holds(self) -> bool:
        """Whether the standby holds what was read, up to the position itself and not only up to a ring before it."""
        return self.target.is_proven and self.want.ring_offset == self.want.offset


def placed_positions(wants: Iterable[Want], found: Resolution) -> list[PlacedPosition]:
    """Each wanted position with its place; one that has none of its own, as in a repartitioned topic, is left out."""
    places = {(t.source, t.topic, t.partition, t.offset): t for t in found.targets}
    keys = ((want, (*_place(want), want.offset)) for want in wants)
    return [PlacedPosition(want=want, target=places[key]) for want, key in keys if key in places]


def cut_off(standings: Iterable[Standing] | None, wants: Iterable[Want]) -> dict[Place, Standing]:
    """Of each wanted partition the standing that says that records before its position are gone."""
    wanted = {_place(want): want.offset for want in wants}
    found: dict[Place, Standing] = {}
    for each in standings or ():
        place = (each.source, each.partition.topic, each.partition.partition)
        gone = each.finding in (Finding.TRUNCATED, Finding.RECREATED)
        if gone and place in wanted and (each.divergence is None or each.divergence < wanted[place]):
            found[place] = each
    return found


def resets_of(
    cut: Mapping[Place, Standing],
    placed_positions: Iterable[PlacedPosition],
    *,
    on_no_match: str,
    consents: Iterable[str],
) -> tuple[Reset, ...]:
    """Where each of these positions continues."""
    policy = "closest" if on_no_match == "fail" and "gap" in consents else on_no_match
    proven = {_place(proof.want) for proof in placed_positions if proof.holds}
    resets = []
    for place, standing in sorted(cut.items()):
        situation = standing.situation
        assert situation is not None
        resets.append(
            Reset(
                source=place[0],
                partition=standing.partition,
                offset=standing.offset,
                divergence=standing.divergence,
                goto=None if place in proven else TABLE[policy, situation],
                policy=policy,
                note=standing.note,
            )
        )
    return tuple(resets)


def is_set_back(resets: Iterable[Reset]) -> bool:
    """Whether any position is left for another one."""
    return any(reset.goto not in (None, Goto.NOWHERE) for reset in resets)


def set_back(offsets: Offsets, resets: Iterable[Reset]) -> Offsets:
    """End offsets with the offset of divergence where a reset goes there."""
    moved: Offsets = {
        source: {topic: dict(found) for topic, found in topics.items()} for source, topics in offsets.items()
    }
    for reset in resets:
        if reset.goto is Goto.DIVERGENCE and reset.divergence is not None:
            moved[reset.source][reset.partition.topic][str(reset.partition.partition)] = reset.divergence
    return moved


def marked(wants: Iterable[Want], offsets: Offsets, resets: Iterable[Reset]) -> tuple[Want, ...]:
    """Wants that say how far was read (``offsets``) before they were set back, and which of them lost their place."""
    by_place = {(reset.source, *reset.partition): reset for reset in resets}
    return tuple(_marked(want, offsets, by_place.get(_place(want))) for want in wants)


def _marked(want: Want, offsets: Offsets, reset: Reset | None) -> Want:
    if reset is None or reset.goto in (None, Goto.NOWHERE):
        return want
    read_to = offsets[want.source][want.topic][str(want.partition)]
    return replace(want, read_to=read_to, lost=None if reset.goto is Goto.DIVERGENCE else reset.policy)


def _place(want: Want) -> Place:
    return want.source, want.topic, want.partition


def truncated_partitions(resets: Iterable[Reset]) -> tuple[TruncatedPartition, ...]:
    """The plan's rows of partitions whose log was cut."""
    return tuple(
        TruncatedPartition(
            source=reset.source,
            topic=reset.partition.topic,
            partition=reset.partition.partition,
            offset=reset.offset,
            divergent_offset=reset.divergence,
            resumes_at="found by content" if reset.goto is None else reset.goto.value,
            note=reset.note,
        )
        for reset in resets
    )
