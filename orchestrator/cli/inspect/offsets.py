"""``offsets``: what a cluster's log holds, by time, earliest, latest or largest timestamp, or by whole segments."""

from dataclasses import dataclass
from datetime import UTC, datetime

import click

from orchestrator.cli import context, render
from orchestrator.cli.context import Context, pass_context
from orchestrator.decide.lookup_wants import standby_topic
from orchestrator.decide.times import instant, parse_time
from orchestrator.errors import ExitCode, UnknownName, UsageError
from state.model.entities import TopicPartition
from state.plain_text import amount
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, OffsetAnswer, Spec
from streaming.errors import KafkaError
from streaming.resolve.comparison import replication_ages

COLUMNS = ("topic", "partition", "query_time", "offset", "timestamp_ms", "leader_epoch", "error")
SEGMENT_COLUMNS = ("topic", "partition", "query_time", "offsets", "error")
AGE_COLUMNS = ("standby_timestamp_ms", "age_seconds", "age_records")
_LIMIT = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """What is to be looked up, as typed."""

    cluster: str
    topic: str
    partition: int | None
    times: tuple[str, ...]
    earliest: bool
    latest: bool
    max_timestamp: bool
    compare: str | None
    segments: bool
    before: str | None
    limit: int | None
    isolation: str

    def checked(self) -> list[int]:
        """The times to look up, in milliseconds or by ``Spec``; none for segments. Raises ``UsageError``."""
        specs = [Spec.EARLIEST] * self.earliest + [Spec.LATEST] * self.latest
        specs += [Spec.MAX_TIMESTAMP] * self.max_timestamp
        if (len(specs) + bool(self.times) + self.segments) != 1:
            raise UsageError(
                "use exactly one of --at TIME (repeatable), --earliest, --latest, --max-timestamp and --segments"
            )
        if not self.segments and (self.before is not None or self.limit is not None):
            raise UsageError("--before and --limit need --segments")
        if self.segments and self.isolation != "read_uncommitted":
            raise UsageError("--segments cannot be combined with --isolation")
        if self.compare is not None and not self.max_timestamp:
            raise UsageError("--compare needs --max-timestamp")
        return list(specs) or [_time(text) for text in self.times]


@click.command()
@click.option("--cluster", required=True, metavar="CLUSTER", shell_complete=context.complete_cluster)
@click.option("--topic", required=True, metavar="TOPIC")
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--at", "times", multiple=True, metavar="TIME", help="First offset at or after TIME. May be repeated.")
@click.option("--earliest", is_flag=True, help="First offset that the cluster still holds.")
@click.option("--latest", is_flag=True, help="End of the log: the next offset to be written.")
@click.option("--max-timestamp", is_flag=True, help="Offset of the record with the largest timestamp.")
@click.option(
    "--compare",
    metavar="CLUSTER",
    shell_complete=context.complete_cluster,
    help="With --max-timestamp: how far the copy on CLUSTER is behind.",
)
@click.option(
    "--segments", is_flag=True, help="First offsets of segments, newest first. Only for brokers up to Kafka 3.9."
)
@click.option("--before", metavar="TIME", help="With --segments: only segments last written at or before TIME.")
@click.option("--limit", type=click.IntRange(1, 10_000), metavar="N", help="With --segments: at most N (default 10).")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_uncommitted",
    show_default=True,
)
@click.option("--timeout", type=context.Seconds(0.05, 600), default=5.0, show_default=True, metavar="SECONDS",
              help="For all answers together. A late answer is an error in its row.")  # fmt: skip
@context.output
@context.gathered("wanted", _Wanted)
@pass_context
def offsets(ctx: Context, wanted: _Wanted, timeout: float, output: str) -> int:
    """Look up offsets on a cluster.

    TIME is milliseconds since the epoch, ISO 8601 with a zone, or -15m before now. If there is no record at
    or after TIME, offset and error are both null. If a row has an error: exit 2, the other rows are valid.
    With --max-timestamp: producers and replicators set timestamps, so that record need not be the newest.

    \b
    Examples:
      tideover offsets --cluster west --topic orders --at -15m
      tideover offsets --cluster west --topic orders --at 2026-01-31T12:00:00Z --at 1769860800000
      tideover offsets --cluster west --topic orders --partition 3 --latest -o json
      tideover offsets --cluster east --topic orders --max-timestamp --compare west
      tideover offsets --cluster west --topic orders --segments --before -1h --limit 3
    """
    times = wanted.checked()
    until = Spec.LATEST if wanted.before is None else _time(wanted.before)
    ctx.known_cluster(wanted.cluster)
    log, deadline = ctx.log(wanted.cluster), Deadline.after(timeout)
    partitions = _partitions(log, wanted, deadline)
    if wanted.segments:
        return _show_segments(log, wanted, partitions, until, deadline, output)
    found: list[dict[str, object]] = []
    for time in times:
        keys = {TopicPartition(wanted.topic, number): time for number in partitions}
        answers = log.offsets(keys, read_committed=wanted.isolation == "read_committed", timeout=deadline.remaining)
        found += [_row(key, time, answers.get(key)) for key in sorted(keys)]
    found.sort(key=lambda row: int(str(row["partition"])))
    columns: tuple[str, ...] = COLUMNS
    if wanted.compare is not None:
        found = _compared(ctx, found, wanted.cluster, wanted.compare, deadline)
        columns = (*COLUMNS[:-1], *AGE_COLUMNS, "error")
    render.show(found, output, columns=columns)
    return ExitCode.FAILED if any(row["error"] for row in found) else ExitCode.DONE


def _compared(
    ctx: Context, rows: list[dict[str, object]], cluster: str, standby: str, deadline: Deadline
) -> list[dict[str, object]]:
    """The same rows with the age of each partition's copy; it need not have all that is older (KIP-734)."""
    route = ctx.settings.route(cluster, standby)
    if route is None:
        raise UsageError(f"the configuration has no route from {cluster} to {standby}")
    copies = {}
    for row in rows:
        key = TopicPartition(str(row["topic"]), int(str(row["partition"])))
        name = standby_topic(route, key.topic)
        if name is None:
            raise UsageError(f"the route from {cluster} to {standby} has no topic {key.topic}")
        copies[key] = TopicPartition(name, key.partition)
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    ages = replication_ages(ctx.log(cluster), ctx.log(standby), copies, deadline, now_ms=now_ms)
    return [
        row
        | {
            "standby_timestamp_ms": each.newest_ms,
            "age_seconds": each.seconds,
            "age_records": each.records,
            "error": row["error"] or (each.error.name if each.error else None),
        }
        for row, each in zip(rows, ages.values(), strict=True)
    ]


def _show_segments(
    log: ClusterLog, wanted: _Wanted, partitions: list[int], time: int, deadline: Deadline, output: str
) -> int:
    keys = dict.fromkeys((TopicPartition(wanted.topic, number) for number in partitions), int(time))
    answers = log.segments(keys, limit=wanted.limit or _LIMIT, timeout=deadline.remaining)
    found = []
    for key in keys:
        error = answers[key].error
        row = _row(key, time, OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None, error=error))
        found.append(
            {("offsets" if name == "offset" else name): value for name, value in row.items()}
            | {"offsets": list(answers[key].offsets)}
        )
    render.show(found, output, columns=SEGMENT_COLUMNS)
    for text in dict.fromkeys(answer.error.text for answer in answers.values() if answer.error):
        render.talk(text)
    return ExitCode.FAILED if any(row["error"] for row in found) else ExitCode.DONE


def _time(text: str) -> int:
    try:
        return parse_time(text, datetime.now(UTC))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _partitions(log: ClusterLog, wanted: _Wanted, deadline: Deadline) -> list[int]:
    cluster, topic, partition = wanted.cluster, wanted.topic, wanted.partition
    facts = log.describe([topic], timeout=deadline.remaining).get(topic)
    if facts is not None and facts.error is not None and facts.error.name != "UNKNOWN_TOPIC_OR_PARTITION":
        raise KafkaError(f"cannot describe topic {topic!r} on {cluster}: {facts.error.name}: {facts.error.text}")
    if facts is None or facts.error is not None or not facts.partitions:
        raise UnknownName(f"{cluster} has no topic {topic!r}", hint="check the name; Tideover never creates a topic")
    if partition is None:
        return sorted(facts.partitions)
    if partition not in facts.partitions:
        raise UnknownName(
            f"{topic} on {cluster} has {amount(len(facts.partitions), 'partition')}, and no partition {partition}"
        )
    return [partition]


def _row(key: TopicPartition, time: int, answer: OffsetAnswer | None) -> dict[str, object]:
    error = "no answer" if answer is None else answer.error.name if answer.error else None
    return {
        "topic": key.topic,
        "partition": key.partition,
        "query_time": Spec(time).name.lower() if time < 0 else instant(time),
        "offset": answer.offset if answer else None,
        "timestamp_ms": answer.timestamp_ms if answer else None,
        "leader_epoch": answer.leader_epoch if answer else None,
        "error": error,
    }
