"""Gates on the sink: what it does with a batch whose id it has seen, as far as that is known.

A sink is known by its format (``streaming.spark.query.sink_memory``), and the configuration's word is compared with
it. A connector that is not known may drop whole batches, so it is never counted as one that drops none.
"""

from orchestrator.decide.gates.gate import UNKNOWN, Gate, answer
from orchestrator.decide.move_facts import MoveFacts, Rewind
from orchestrator.decide.times import instant
from state.messages import CheckpointReport, SinkMemory
from state.settings.keys import Sink

DROPPED = "dropped"
"""The consent to batches that the sink drops, because it has others under their ids."""

REPEATS = "repeats"
KAFKA = "kafka"
"""The format of Spark's Kafka sink."""

_BY_MORE = (SinkMemory.QUERY_AND_BATCH, SinkMemory.CHECKPOINT_AND_BATCH)
"""What distinguishes the batches of a new checkpoint from the old one's of the same id."""


def sink_declared(facts: MoveFacts) -> Gate | None:
    """A sink that remembers nothing is not one that drops a batch by its id, whatever the configuration says."""
    report = facts.report
    if report is None or report.sink_memory is not SinkMemory.NOTHING:
        return None
    contradicts = facts.settings.sink is Sink.BATCH_ID
    return answer(
        "sink-declared",
        not contradicts or REPEATS in facts.consents,
        f"{report.sink_format}, sink: {facts.settings.sink}",
        "a sink that does what sink: says",
        "the configuration says of the sink what its format does" if not contradicts else "consent repeats is given",
        f"sink: batch-id says that the sink drops a batch whose id it has, and {report.sink_format} keeps every batch "
        "that it gets. Set sink: append, or keyed where a key is overwritten; --consent repeats accepts it once",
    )


def sink_follows(facts: MoveFacts) -> Gate | None:
    """An application's Kafka sink that no output declares writes where the code says, wherever the query reads.

    Which cluster that is, no one sees. A person may know it; automatic mode does not. Between two runs it is that of
    the last one.
    """
    report, application = facts.report, facts.settings.attach
    if application is None or facts.settings.output is not None:
        return None
    name = report.sink_format if report is not None else None
    if name is None and facts.fact is not None:
        name = facts.fact.sink
    if name not in (None, KAFKA):
        return None
    text = (
        f"no run of {application} has shown yet whether {facts.query} writes to Kafka: start it once. If it does, "
        "declare output, and the sink follows the query"
        if name is None
        else f"the Kafka sink of {facts.query} writes to the cluster that the code of {application} names, also while "
        f"the query reads {facts.target}: which one that is, is unknown. Declare output, and the sink follows the query"
    )
    return answer("sink-follows", facts.attended, UNKNOWN, "an output that is declared", text, text)


def fresh_allowed(facts: MoveFacts) -> Gate | None:
    """A fresh start loses state, and batch ids from 0 make a sink that drops by batch id lose whole batches."""
    if not facts.fresh or facts.stateful is None:
        return None
    why = "the query keeps state" if facts.stateful else ""
    harm = "would lose it"
    report = facts.report
    if _drops_by_id(facts.settings.sink, report):
        why, harm = "its sink drops batches whose id it knows", "would lose whole batches without an error"
    elif report and report.sink_format and report.sink_memory is SinkMemory.UNKNOWN:
        why = f"it is unknown whether its sink {report.sink_format} drops batches whose id it knows"
        harm = "may lose whole batches without an error"
    if not why and report and report.other_sources:
        why, harm = "it reads other sources than Kafka", "would read those again from their beginning"
    return answer(
        "fresh-allowed",
        not why or "fresh" in facts.consents,
        why or "stateless, sink without batch ids",
        "stateless, sink without batch ids",
        "a fresh start loses nothing here" if not why else "consent fresh is given",
        f"{why}: a fresh start {harm}; use resume: carry, or --consent fresh accepts it",
    )


def _drops_by_id(sink: Sink, report: CheckpointReport | None) -> bool:
    """Whether a batch of a new checkpoint is dropped for an old one of the same id."""
    memory = report.sink_memory if report is not None else SinkMemory.UNKNOWN
    return memory is SinkMemory.BATCH or (sink is Sink.BATCH_ID and memory not in _BY_MORE)


def sink_takes_batches(facts: MoveFacts) -> Gate | None:
    """What the sink does with records that a rewind hands to it again; refused where it would drop whole batches."""
    rewind, report = facts.rewind, facts.report
    if rewind is None or report is None or report.batch is None:
        return None
    ids_come_again = bool(facts.stateful) and not facts.fresh
    unknown = report.sink_memory is SinkMemory.UNKNOWN and report.sink_format is not None
    by_id = _drops_by_id(facts.settings.sink, report) or unknown
    back = rewind.batch.batch if rewind.batch is not None else None
    since = f"batch {back}" if back is not None else "the batch that it goes back to"
    known = report.planned.batch if report.planned is not None else report.batch
    does = (
        f"may keep the ids of its batches, up to {known}, and drop"
        if unknown
        else (f"keeps the ids of its batches, up to {known}, and would drop")
    )
    return answer(
        "sink-takes-batches",
        not (by_id and ids_come_again) or DROPPED in facts.consents,
        "ids from 0 on" if facts.fresh else _ids(back, known, ids_come_again),
        "ids that the sink does not have" if by_id else "any ids",
        f"consent {DROPPED} is given" if by_id and ids_come_again else _what_becomes(facts, rewind),
        f"its sink {does} the batches after {since} in silence: "
        f"delete from the sink what came after {since}, ids included, then --consent {DROPPED}",
    )


def _ids(back: int | None, known: int, come_again: bool) -> str:
    if not come_again:
        return f"ids from {known + 1} on"
    return f"ids up to {known} again" if back is None else f"ids {back + 1} to {known} again"


def _what_becomes(facts: MoveFacts, rewind: Rewind) -> str:
    if facts.settings.sink is Sink.KEYED:
        return "its sink overwrites by key: what comes again replaces what is there"
    since = instant(rewind.to_time_ms)
    return f"its sink keeps records that come again: delete from it what came after {since}, else it is there twice"
