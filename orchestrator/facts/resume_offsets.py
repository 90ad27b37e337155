"""Where a query resumes on its target: what is remembered of its position, and what the standby answers for it.

Method by method ``streaming.resolve`` reads the standby. Here is decided what to read: from which position, with
which samples of the old cluster's ends, and from where positions continue whose log was cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from orchestrator.decide import truncation
from orchestrator.decide.buffer import buffered
from orchestrator.decide.gates.loss import begins_late, refuses_unknown_repeats
from orchestrator.decide.lookup_wants import (
    batches_looked_into,
    is_counted,
    newest_of,
    rules_of,
    since_placed,
    sound_ends,
    wants_of,
    with_rings,
)
from orchestrator.decide.move_facts import MoveFacts
from orchestrator.decide.operation.unread import Arrival, arrival, shifted
from orchestrator.decide.phases import BEHIND_COMMIT
from orchestrator.facts.source_cluster import (
    DESCRIBE_SECONDS,
    common_history,
    end_wants,
    ends_of,
    has_patterns,
    new_topic_wants,
    standings_of,
    unknown_end,
    unseen_samples,
)
from orchestrator.facts.timestamp_disorder import measured_buffers, newest_stretches
from state.messages import CheckpointReport, Offsets
from state.model.entities import EndSample, Operation, Position, TopicPartition
from state.settings.keys import Tideover
from state.settings.topics import handed_on
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock, Deadline
from streaming.cluster_log import ClusterLog, Logs
from streaming.errors import KafkaError
from streaming.resolve.batched_lookups import request_offsets
from streaming.resolve.lag import Memory, bounded
from streaming.resolve.resolver import resolve
from streaming.resume.model import Resolution, Target, Want

STANDBY_SECONDS = 3.0
"""How long an answer of the standby counts."""
RESOLVE_SECONDS = 5.0
COUNT_SECONDS = 10.0
"""How long a move that an unknown number of repeats would refuse searches for them, once it has not got them at first.
A machine on which many queries move at once is slow, and a refusal costs a minute (``automatic.FIRST_RETRY``)."""
MOVES = 20
"""How many moves back is looked for the one that left a cluster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _LookedUp:
    """What was looked up ahead of need, and the answer."""

    at: float
    """On the monotonic clock."""
    target: str
    wants: tuple[Want, ...]
    resolution: Resolution


class ResumeOffsets:
    """Looks resume offsets up for one operation or one plan; not shared between threads."""

    def __init__(self, store: ControllerStore, settings: Tideover, logs: Logs, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._logs = logs
        self._clock = clock
        self._ahead: _LookedUp | None = None
        self._written: dict[str, tuple[Want, ...]] = {}
        """By the operation in hand, the ends of what its query has written."""

    def is_ahead(self) -> bool:
        """Whether an answer of a moment ago is at hand."""
        return self._fresh_ahead() is not None

    def look_ahead(self, facts: MoveFacts, report: CheckpointReport) -> None:
        """Resolve before the fence is done. Raises ``KafkaError``."""
        sampled, positions = self._ends(facts, report), self._read(facts, report, self._remembered(facts, report))
        facts = replace(facts, buffers=measured_buffers(self._store, facts, positions))
        wants, ends = self._wants(facts, report.offsets, positions, sampled)
        looked_up_at, found = self._clock.monotonic(), self._resolve(facts, wants, ends)
        self._ahead = _LookedUp(at=looked_up_at, target=facts.target, wants=wants, resolution=found)

    def _fresh_ahead(self) -> _LookedUp | None:
        """A fence may be waited for by the hour, and the standby's retention and its topics do not wait."""
        ahead = self._ahead
        return ahead if ahead and self._clock.monotonic() - ahead.at < STANDBY_SECONDS else None

    def resolve(self, facts: MoveFacts, report: CheckpointReport) -> tuple[MoveFacts, Resolution, Resolution | None]:
        """Of batch N and of the planned batch; the facts say where positions continue whose log was cut."""
        tracked, sampled = self._remembered(facts, report), self._ends(facts, report)
        positions = self._read(facts, report, tracked)
        facts = replace(facts, buffers=measured_buffers(self._store, facts, positions))
        if facts.standings is None:
            known = truncation.tracked_at(since_placed(positions, facts.assignment), report.offsets)
            standings = standings_of(self._read_from(facts), facts, known, sampled, self._store.now())
            facts = replace(facts, standings=standings)
        wants, ends = self._wants(facts, report.offsets, positions, sampled)
        cut = truncation.cut_off(facts.standings, wants)
        if not cut:
            found, planned = self._found(facts, report, wants, ends, tracked)
            return replace(facts, resets=()), self._bounded(facts, found, wants, ends, positions), planned
        proofs = truncation.placed_positions(wants, self._resolve(facts, wants, ends))
        resets = truncation.resets_of(cut, proofs, on_no_match=facts.policy.on_no_match, consents=facts.consents)
        facts = replace(facts, resets=resets)
        if not truncation.is_set_back(resets):
            return facts, *self._found(facts, report, wants, ends, tracked)
        common = common_history(self._read_from(facts), positions, resets, facts.settings.committed_only)
        there = truncation.set_back(report.offsets, resets)
        back, _ = self._wants(facts, there, self._with_rings(facts, [*positions, *common], there), sampled)
        # The planned batch held records of the log as it was, so that it cannot be planned again.
        return facts, self._resolve(facts, truncation.marked(back, report.offsets, resets), ends), None

    def of_output(self, facts: MoveFacts) -> MoveFacts:
        """What becomes of topics that one query writes and another one reads, of either side's move."""
        facts = replace(facts, begun=self._begun(facts))
        topic = handed_on(self._settings, facts.query, facts.source, facts.target)
        if topic is None:
            return facts
        facts = replace(facts, handed_on=topic, written=self._written_to(facts, topic) if facts.planned else None)
        if facts.operation is None:
            return facts
        with suppress(KafkaError):
            ends = ends_of(self._logs(facts.target), topic, timeout=DESCRIBE_SECONDS)
            return replace(facts, output_ends=ends)
        return facts

    def _written_to(self, facts: MoveFacts, topic: str) -> tuple[Target, ...]:
        """Whether the copies of what the query has written are there, if what it writes next comes behind them.

        Of an operation the ends are those of the first look: the query has stopped, and who else writes to the topic
        shall not hold it up.
        """
        rules = replace(rules_of(facts.settings, "fail", facts.route), committed_only=frozenset({topic}))
        try:
            wants = self._written.get(facts.operation or "")
            if wants is None:
                wants = end_wants(self._logs(facts.source), topic, timeout=DESCRIBE_SECONDS)
            if facts.operation is not None:
                self._written = {facts.operation: wants}
            log, now = self._logs(facts.target), self._clock.now()
            return resolve(log, wants, rules, old_ends={}, now=now, timeout=RESOLVE_SECONDS).targets if wants else ()
        except KafkaError as error:
            return (unknown_end(topic, rules, str(error)),)

    def _begun(self, facts: MoveFacts) -> Mapping[TopicPartition, tuple[str, int | None]]:
        """Where others, that moved the same way before, began to write to the topics that this query reads.

        One whose move has not ended moves together with this query: its first output is still to come.
        """
        found: dict[TopicPartition, tuple[str, int | None]] = {}
        read = {target.there for target in facts.resumes_at.targets} if facts.resumes_at is not None else set()
        for name in self._settings.queries:
            topic = handed_on(self._settings, name, facts.source, facts.target)
            if name == facts.query or topic not in {key.topic for key in read} or not self._moved_before(name, facts):
                continue
            ends = self._output_of(name, facts)
            for key in (key for key in read if key.topic == topic):
                found[key] = _earlier(found.get(key), (name, ends.get(str(key.partition), 0 if ends else None)))
        return found

    def _moved_before(self, name: str, facts: MoveFacts) -> bool:
        """Whether its last move, which is over, went the same way, and it is still where it came to."""
        row, came = self._store.assignment(name), self._came(name)
        if row is None or came is None or row.cluster != came.target:
            return False
        return (came.source, came.target) == (facts.source, facts.target)

    def _came(self, name: str) -> Operation | None:
        newest = (o for o in self._store.operations(query=name, limit=MOVES) if o.source != o.target)
        return next((o for o in newest if o.outcome == "done"), None)

    def _output_of(self, name: str, facts: MoveFacts) -> Mapping[str, int]:
        """By partition, where its output begins on the target at the earliest; empty where that is not known."""
        came = self._came(name)
        output = came.plan.output if came is not None and came.plan is not None else None
        return output.ends if output is not None else {}

    def _found(
        self,
        facts: MoveFacts,
        report: CheckpointReport,
        wants: tuple[Want, ...],
        ends: Mapping[TopicPartition, EndSample],
        tracked: Sequence[Position],
    ) -> tuple[Resolution, Resolution | None]:
        ahead = self._fresh_ahead()
        if report.planned is None or facts.fresh:
            if ahead and (ahead.target, ahead.wants) == (facts.target, wants) and _all_exact(ahead.resolution):
                return ahead.resolution, None
            return self._resolve(facts, wants, ends), None
        planned, _ = self._wants(facts, report.planned.offsets, tracked, ends)
        together = tuple({_key(want): want for want in planned + wants}.values())
        both = self._resolve(facts, together, ends)
        if _keys(both.targets) != _wanted(together):  # partitions that do not match one to one have common places
            return self._resolve(facts, wants, ends), self._resolve(facts, planned, ends)
        return _part(both, wants), _part(both, planned)

    def _bounded(
        self,
        facts: MoveFacts,
        found: Resolution,
        wants: Sequence[Want],
        ends: Mapping[TopicPartition, EndSample],
        positions: Sequence[Position],
    ) -> Resolution:
        """With bounds where the standby lags further than records are remembered."""
        if facts.assignment is None:
            return found
        now, rows = self._store.now(), since_placed(positions, facts.assignment)
        memory = Memory(
            rows=rows,
            with_rings=lambda batches: self._with_rings(facts, rows, batches=batches),
            stretches=newest_stretches(self._store, facts.assignment, now),
        )
        rules = rules_of(facts.settings, facts.policy.on_no_match, facts.route)
        return bounded(self._logs(facts.target), found, wants, rules, old_ends=ends, memory=memory, now=now)

    def _wants(
        self,
        facts: MoveFacts,
        offsets: Offsets,
        positions: Sequence[Position],
        sampled: Mapping[TopicPartition, EndSample],
    ) -> tuple[tuple[Want, ...], Mapping[TopicPartition, EndSample]]:
        """What to look up, and the samples of the old cluster's ends that may be believed for it."""
        if facts.route is None:
            raise ValueError(f"no route from {facts.source} to {facts.target}")
        ends = sound_ends(sampled, since_placed(positions, facts.assignment))
        wants = wants_of(offsets, positions=positions, ends=ends, route=facts.route)
        return buffered(wants, facts.buffers, positions), ends

    def _read_from(self, facts: MoveFacts) -> ClusterLog | None:
        """The log that the query reads; None where another cluster has its name since."""
        return self._logs(facts.source) if facts.left is None else None

    def _ends(self, facts: MoveFacts, report: CheckpointReport) -> Mapping[TopicPartition, EndSample]:
        """Samples of the cluster where the query is, and not of another one that had or has its name.

        Of the topics that it reads alone: a cluster of a hundred queries has ten thousand others.
        """
        offsets = (report.offsets, report.planned.offsets if report.planned is not None else {})
        read = {topic for sources in offsets for topics in sources.values() for topic in topics}
        topics = None if has_patterns(facts.settings) else frozenset(read) | frozenset(facts.topics or ())
        ends, replaced = self._store.ends(facts.source, topics=topics), facts.replaced_at(facts.source)
        if replaced is None:
            return ends
        before = facts.left is not None
        return {key: sample for key, sample in ends.items() if (sample.sampled_at < replaced) == before}

    def tracked(self, facts: MoveFacts) -> list[Position]:
        """The positions of the place in use, with their records counted and not read."""
        return since_placed(self._store.positions(facts.query, rings=False), facts.assignment)

    def _remembered(self, facts: MoveFacts, report: CheckpointReport) -> list[Position]:
        """The positions of the place in use, with what look-ups of batch N and of the planned batch go by."""
        tracked = self.tracked(facts)
        planned = () if report.planned is None else (report.planned.offsets,)
        newest = {row.batch for row in newest_of(tracked)} if facts.settings.buffer == "measured" else ()
        return self._with_rings(facts, tracked, report.offsets, *planned, batches=newest)

    def _with_rings(
        self, facts: MoveFacts, positions: Sequence[Position], *offsets: Offsets, batches: Iterable[int] = ()
    ) -> list[Position]:
        """Positions with the rings of some batches, and of those that look-ups at these offsets go by.

        Others stay counted: a dozen batches of rings would be hundreds of megabytes.
        """
        wanted = batches_looked_into(positions, *offsets).union(batches)
        unread = sorted(wanted & {row.batch for row in positions if is_counted(row)})
        read = [row for batch in unread for row in self._store.positions(facts.query, batch=batch)]
        return with_rings(positions, unread, read)

    def _read(self, facts: MoveFacts, report: CheckpointReport, tracked: list[Position]) -> list[Position]:
        """What is remembered of the records up to batch N: from the place before, too, if nothing was read in this."""
        assignment, arrived = facts.assignment, self.arrived(facts)
        if assignment is None or arrived is None or not arrived.is_unread(report):
            return tracked
        before = replace(assignment, cluster=arrived.source, placed_epoch=1)
        return shifted(since_placed(self._store.positions(facts.query), before), arrived) + tracked

    def arrived(self, facts: MoveFacts) -> Arrival | None:
        """The move that brought the query to where it is placed; None when it began there."""
        placing = next((o for o in self._store.operations(query=facts.query) if o.phase in BEHIND_COMMIT), None)
        if facts.assignment is None or placing is None or placing.target != facts.assignment.cluster:
            return None
        route = self._settings.route(placing.source, placing.target)
        return arrival(self._store.intents(placing.id), route) if route is not None else None

    def departed(self, facts: MoveFacts) -> Operation | None:
        """The last of its newest moves that took the query away from where it goes now.

        None where it never was there, but on another cluster that had the name before.
        """
        newest = self._store.operations(query=facts.query, limit=MOVES)
        done = [o for o in newest if o.outcome == "done" and o.source != o.target]
        away = next((o for o in done if o.source == facts.target), None)
        replaced = facts.replaced_at(facts.target)
        if away is None or replaced is None:
            return away
        came = next((o for o in done if o.target == facts.target and o.epoch < away.epoch), None)
        return away if came is not None and came.started_at > replaced else None

    def _resolve(self, facts: MoveFacts, wants: Sequence[Want], ends: Mapping[TopicPartition, EndSample]) -> Resolution:
        log, now = self._logs(facts.target), self._clock.now()
        if has_patterns(facts.settings):
            new = new_topic_wants(
                log, self._settings, facts.settings, source=facts.source, target=facts.target, wants=wants
            )
            wants, ends = (*wants, *new), {**unseen_samples(new, facts.source, now), **ends}
        rules = rules_of(facts.settings, facts.policy.on_no_match, facts.route)
        found = resolve(log, wants, rules, old_ends=ends, now=now, timeout=RESOLVE_SECONDS)
        if found.search_cut_short and refuses_unknown_repeats(facts):
            patient = {"timeout": 2 * COUNT_SECONDS, "search_seconds": COUNT_SECONDS}
            found = resolve(log, wants, rules, old_ends=ends, now=now, **patient)
        return _with_first_times(log, found)


def _with_first_times(log: ClusterLog, found: Resolution) -> Resolution:
    """With the time of the first record of logs that may begin after the position, although nothing was deleted."""
    late = [target.there for target in found.targets if begins_late(target)]
    answers = request_offsets(log, [(key, 0) for key in late], Deadline.after(DESCRIBE_SECONDS)) if late else {}
    times = {key: looked.timestamp_ms for (key, _), looked in answers.items() if looked.timestamp_ms is not None}
    if not times:
        return found
    return replace(found, earliest_timestamps={**(found.earliest_timestamps or {}), **times})


def _earlier(known: tuple[str, int | None] | None, other: tuple[str, int | None]) -> tuple[str, int | None]:
    """Of two upstream queries the one that began first; one of which that is unknown counts as the first."""
    if known is None or other[1] is None:
        return other
    return known if known[1] is None else min(known, other, key=lambda each: each[1] or 0)


def _all_exact(resolution: Resolution) -> bool:
    return all(target.exact for target in resolution.targets)


def _part(both: Resolution, wants: Sequence[Want]) -> Resolution:
    """Of one answer to two questions, the targets that belong to one of them."""
    keys = _wanted(wants)
    return replace(both, targets=tuple(target for target in both.targets if _key(target) in keys))


def _wanted(wants: Iterable[Want]) -> set[tuple[str, str, int, int]]:
    return {_key(want) for want in wants}


def _keys(targets: Iterable[Target]) -> set[tuple[str, str, int, int]]:
    return {_key(target) for target in targets}


def _key(wanted: Want | Target) -> tuple[str, str, int, int]:
    return wanted.source, wanted.topic, wanted.partition, wanted.offset
