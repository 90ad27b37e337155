"""Gates on what a query's own logic makes of columns that belong to a cluster: offset, partition, topic, timestamp.

A record has the same key and value on the standby, and other values in these columns. Keys of a de-duplication, groups,
joins, filters and watermarks that use them mean something else there, and no error shows it. A runner reads the uses
from the plan (``streaming.meaning``). What the plan does not show is unknown: a person may accept that, automatic
failover and ``check`` do not.

A gate passes where a move changes nothing: the column is not used, or both clusters say the same, or the companion
presents what the home cluster would have said. ``safe_columns`` says that the query is right whatever a column holds;
``--consent columns`` accepts it once.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from orchestrator.decide.gates.gate import UNKNOWN, Gate, answer
from orchestrator.decide.move_facts import MoveFacts
from state.model.column_uses import TIMES, Column, ColumnUse
from state.model.entities import OperationKind, TopicPartition
from state.plain_text import few
from state.settings.keys import Resume
from streaming.resume.model import Target

COLUMNS = "columns"
"""The consent."""
LIMIT = "not used, or the same on both clusters"
AHEAD_MS = 10_000
"""By how much a record's time may be ahead of the clock: producers' clocks and the store's differ by some seconds."""
_WATERMARK = "withWatermark"
_DEDUPLICATES = frozenset({"dropDuplicates", "dropDuplicatesWithinWatermark", "distinct"})
_CONSEQUENCES = {
    "filter": "other records would pass",
    "groupBy": "records would be counted in other groups",
    "join": "records would match others than they should",
    "select": "the values that it computes for the sink would be others",
    "orderBy": "the order would be another",
    **dict.fromkeys(_DEDUPLICATES, "records could be dropped as duplicates, or repeats kept"),
}


def offset_in_logic(facts: MoveFacts) -> Gate | None:
    """Offsets differ on the standby, and partitions where there are more or fewer of them."""
    counts = facts.resumes_at.fewer_partitions if facts.resumes_at is not None else None
    changed = {Column.OFFSET, Column.PARTITION} if counts else {Column.OFFSET}
    kept = _kept_offsets(facts) or (None if counts else _home_offsets(facts))
    if kept is None and facts.route is not None and facts.route.keeps_offsets and facts.resumes_at is None:
        return None  # the route is said to keep offsets, and no resume offset has shown it yet

    def consequence(uses: Sequence[ColumnUse]) -> str:
        what = "offsets and partitions" if counts else "offsets"
        operators = sorted({use.operator for use in uses} & _DEDUPLICATES)
        count = _taken_for_duplicates(facts, uses) if operators else None
        if count is not None:
            return (
                f"{what} of {facts.target} differ, so up to {count} records that were not seen before could be "
                "dropped as duplicates"
            )
        return f"{what} of {facts.target} differ, so {_of(uses)}"

    return _judged(facts, "offset-in-logic", changed, kept, consequence, beside={Column.PARTITION})


def home_offsets(facts: MoveFacts) -> Gate | None:
    """Only the companion continues the offsets of home; a move by another way would begin with those of the standby.

    Which way ``resume: auto`` takes depends on the runners that are alive, so no configuration shows it beforehand.
    """
    if not facts.settings.home_offsets or facts.kind is OperationKind.REWIND or not facts.runners:
        return None
    switches, home = _switches(facts), facts.settings.clusters[0]
    way = "switch" if switches else "fresh" if facts.fresh else "carry"
    without = f"runner {facts.companion_missing} has no companion, so " if facts.without_companion else ""
    good = f"the companion continues the offsets of {home}" if switches else f"consent {COLUMNS} is given"
    bad = (
        f"home_offsets is set, and {without}{facts.query} would resume by {way}, which does not continue the offsets "
        f"of {home}: start its runners with the companion; --consent {COLUMNS} accepts the offsets of {facts.target}"
    )
    return answer("home-offsets", switches or COLUMNS in facts.consents, way, "switch", good, bad)


def topic_in_logic(facts: MoveFacts) -> Gate | None:
    """A topic may have another name on the standby."""
    if facts.topics is None or facts.route is None:
        return None
    here, there = next(iter(_renamed(facts).items()), ("", ""))
    kept = _kept_topics(facts)

    def consequence(uses: Sequence[ColumnUse]) -> str:
        return f"{here} is {there} on {facts.target}, so {_of(uses)}"

    return _judged(facts, "topic-in-logic", {Column.TOPIC}, kept, consequence)


def headers_in_logic(facts: MoveFacts) -> Gate | None:
    """A replicator may add headers to its copies, or leave some out; MirrorMaker 2 does neither."""
    route = facts.route
    if route is None or not any(use.column is Column.HEADERS for use in _uses(facts) or ()):
        return None
    kept = None
    if route.offset_syncs or route.heartbeats:
        kept = "MirrorMaker 2 copies headers as they are"
    elif _kept_offsets(facts) is not None:
        kept = "the replicator copies records byte by byte"

    def consequence(_uses: Sequence[ColumnUse]) -> str:
        return f"it is unknown which headers the replicator of {facts.target} adds or leaves out"

    return _judged(facts, "headers-in-logic", {Column.HEADERS}, kept, consequence, is_known=False)


def event_time(facts: MoveFacts) -> Gate | None:
    """The time of a record is the same on the standby only where both clusters keep what the producer said."""
    there = facts.standby.topics if facts.standby is not None else None
    if there is None or facts.topics is None:
        return None
    stamps = _stamps(facts)
    odd = [where for where, kind in stamps.items() if kind == "LogAppendTime"]
    unknown = [where for where, kind in stamps.items() if kind is None]
    future = _future(facts)
    kept = None if odd or unknown or future else "both clusters keep the time that the producer gave"

    def consequence(uses: Sequence[ColumnUse]) -> str:
        if future is not None:
            return future
        if not odd:
            return f"it is unknown whether {few(unknown)} uses CreateTime or LogAppendTime, and how many would be late"
        return f"{few(odd)} uses LogAppendTime, so the times of copies differ: {_shift(facts, uses)}"

    return _judged(facts, "event-time", TIMES, kept, consequence, is_known=bool(odd or future))


def recognises_repeats(facts: MoveFacts) -> bool:
    """Whether keys of de-duplication, if there are any, are the same for a record and for its copy on the standby."""
    uses = _uses(facts)
    if uses is None:
        return False
    keys = {use.column for use in uses if use.operator in _DEDUPLICATES}
    if Column.OFFSET in keys and _kept_offsets(facts) is None:
        return False
    if Column.TOPIC in keys and _kept_topics(facts) is None:
        return False
    return not keys & TIMES or all(kind == "CreateTime" for kind in _stamps(facts).values())


def _judged(
    facts: MoveFacts,
    name: str,
    columns: Collection[Column],
    kept: str | None,
    consequence: Callable[[Sequence[ColumnUse]], str],
    *,
    beside: Collection[Column] = (),
    is_known: bool = True,
) -> Gate | None:
    """One rule for all of them.

    ``kept``: why these columns are the same after a move; None where they may differ. ``beside``: columns that are
    named where one of the others is used by the same operator. ``is_known``: a difference is known, not only possible.
    """
    if facts.fact is None:
        return None
    every = _uses(facts)
    if every is None:
        text = f"no runner has read the plan of {facts.query} yet, so it is unknown which columns its logic uses"
        return answer(name, facts.attended or COLUMNS in facts.consents, UNKNOWN, LIMIT, text, text)
    safe = {Column(column) for column in facts.settings.safe_columns}
    found = [use for use in every if use.column in columns]
    uses = [use for use in found if use.column not in safe]
    if not uses:
        said = f"safe_columns says that {facts.query} is right with any {_listed(use.column for use in found)}"
        unused = f"{facts.query} uses no {_listed(columns, 'or')} that a move would change"
        return answer(name, True, "safe_columns" if found else "not used", LIMIT, said if found else unused, "")
    logic = [use for use in uses if use.is_logic]
    shown = logic or uses
    measured = columns_text(shown)
    if kept is not None:
        return answer(name, True, f"the same ({measured})", LIMIT, kept, "")
    if COLUMNS in facts.consents:
        return answer(name, True, measured, LIMIT, f"consent {COLUMNS} is given", "")
    home = "home_offsets: true keeps the offsets of home, " if Column.OFFSET in columns and _switches(facts) else ""
    accept = (
        f"{home}--consent {COLUMNS} accepts it, safe_columns: [{', '.join(_names(shown))}] says that it does no harm"
    )
    operators = {use.operator for use in shown}
    near = [use for use in every if use in shown or (use.column in beside and use.operator in operators)]
    if logic and is_known:
        return answer(name, False, measured, LIMIT, "", f"{_subject(near)}: {consequence(logic)}; {accept}")
    what = f"{consequence(logic)}" if logic else f"what {_listed(sorted(operators))} does with it is unknown"
    text = f"{_subject(near)}: {what}; {accept}"
    return answer(name, facts.attended, UNKNOWN, LIMIT, text, text)


def _uses(facts: MoveFacts) -> tuple[ColumnUse, ...] | None:
    return facts.fact.columns if facts.fact is not None else None


def _kept_offsets(facts: MoveFacts) -> str | None:
    """Why offsets are the same on both clusters: said of the route, and shown by each resume offset."""
    if facts.route is None or not facts.route.keeps_offsets or facts.resumes_at is None:
        return None
    same = [each.exact and each.target_offset == each.offset for each in facts.resumes_at.targets]
    return f"every offset is the same on {facts.target}" if same and all(same) else None


def _renamed(facts: MoveFacts) -> dict[str, str]:
    names = sorted((facts.topics or {}).items())
    return {here: there for here, there in names if there is not None and there != here}


def _kept_topics(facts: MoveFacts) -> str | None:
    """Why the query sees every topic under the same name; None where it does not."""
    if not _renamed(facts):
        return f"every topic has the same name on {facts.target}"
    home, sources = facts.settings.clusters[0], facts.settings.sources.values()
    named = facts.source == home or all(source.pattern is None for source in sources)
    return f"the companion presents topics by their names on {home}" if named and _switches(facts) else None


def _home_offsets(facts: MoveFacts) -> str | None:
    """Why the query gets offsets that continue those of its home, whatever the standby counts; None where not."""
    if not (facts.settings.home_offsets and _switches(facts)):
        return None
    return f"home_offsets: the companion continues the offsets of {facts.settings.clusters[0]}"


def _switches(facts: MoveFacts) -> bool:
    """Whether the query reads through the companion's source after the move; a drill is judged as a failover."""
    companion = bool(facts.runners) and not facts.without_companion
    if facts.settings.application is not None:
        return False
    return not facts.fresh and facts.settings.resume_with(companion=companion) is Resume.SWITCH


def _taken_for_duplicates(facts: MoveFacts, uses: Sequence[ColumnUse]) -> int | None:
    """How many records of the standby have offsets that the state may know already; None unknown."""
    targets = facts.resumes_at.targets if facts.resumes_at is not None else ()
    if not targets:
        return None
    sources = {use.source for use in uses if use.operator in _DEDUPLICATES and use.column is Column.OFFSET}
    read = [target for target in targets if target.source in sources]
    partitions = {use.source for use in _uses(facts) or () if use.operator in _DEDUPLICATES and _is_partition(use)}
    counts = [_below(target, read, by_partition=target.source in partitions) for target in read]
    return None if None in counts or not read else sum(count or 0 for count in counts)


def _is_partition(use: ColumnUse) -> bool:
    return use.column is Column.PARTITION


def _below(target: Target, read: Iterable[Target], *, by_partition: bool) -> int | None:
    """Offsets from the resume offset on that are not above the highest that was read."""
    if target.target_offset is None:
        return None
    others = [each.offset for each in read if each.source == target.source]
    return max(0, (target.offset if by_partition else max(others)) - target.target_offset)


def _stamps(facts: MoveFacts) -> dict[str, str | None]:
    """By topic and cluster who stamps its records; None where that is not known."""
    there = (facts.standby.topics if facts.standby is not None else None) or {}
    answered = (facts.active.topics if facts.active is not None else None) or {}
    sampled = facts.times.stamps if facts.times is not None else {}
    found: dict[str, str | None] = {}
    for here, name in sorted((facts.topics or {}).items()):
        active, standby = answered.get(here), there.get(name or "")
        found[f"{here} on {facts.source}"] = (active.timestamp_type if active else None) or sampled.get(here)
        found[f"{name} on {facts.target}"] = standby.timestamp_type if standby else None
    return found


def _shift(facts: MoveFacts, uses: Sequence[ColumnUse]) -> str:
    """What the difference of times does, in seconds where samples show it."""
    latencies = [least for each in (facts.times.latencies if facts.times else {}).values() for least in each]
    if not latencies:
        return "it is unknown how many records would be late"
    earlier, delay = -min(latencies), _delay(uses)
    late = max(0, earlier - (delay or 0))
    if delay is not None and late:
        return f"{_seconds(late)} of records would be late (stamped {_seconds(earlier)} earlier than here)"
    if earlier > 0:
        return f"records would be stamped {_seconds(earlier)} earlier than here"
    return f"records would be stamped {_seconds(max(latencies))} later than here, and fall into later windows"


def _future(facts: MoveFacts) -> str | None:
    """What a record from the future does to a query with a watermark: it makes those of now late."""
    uses = _uses(facts) or ()
    delay = _delay([use for use in uses if use.column is Column.TIMESTAMP])
    ahead = facts.times.ahead if facts.times is not None else {}
    if delay is None or not ahead:
        return None
    worst = max(ahead, key=ahead.__getitem__)
    late = ahead[worst] - delay
    if late < AHEAD_MS:
        return None
    return (
        f"{_seconds(late)} of records would be late: {_partition(worst)} on {facts.source} has a record "
        f"{_seconds(ahead[worst])} ahead of the clock, and the watermark follows it"
    )


def _delay(uses: Iterable[ColumnUse]) -> int | None:
    """The shortest delay of a watermark, in milliseconds; None without any."""
    delays = [use.delay_ms for use in uses if use.operator == _WATERMARK and use.delay_ms is not None]
    return min(delays, default=None)


def _of(uses: Sequence[ColumnUse]) -> str:
    found = dict.fromkeys(
        _CONSEQUENCES.get(use.operator, f"{use.operator} would compare or write others") for use in uses
    )
    return " and ".join(found)


def _subject(uses: Sequence[ColumnUse]) -> str:
    """``dropDuplicates uses offset, partition``, for each operator."""
    operators = dict.fromkeys((use.operator, use.is_logic) for use in uses)
    parts = []
    for operator, is_logic in operators:
        named = ", ".join(_names(use for use in uses if use.operator == operator and use.is_logic is is_logic))
        parts.append(f"{operator} uses {named}" if is_logic else f"{named} reaches {operator}")
    return "; ".join(parts)


def columns_text(uses: Sequence[ColumnUse]) -> str:
    """``dropDuplicates: offset, partition; foreachBatch: topic``."""
    operators = dict.fromkeys(use.operator for use in uses)
    named = (f"{each}: {', '.join(_names(use for use in uses if use.operator == each))}" for each in operators)
    return "; ".join(named)


def _names(uses: Iterable[ColumnUse]) -> list[str]:
    present = {use.column for use in uses}
    return [column.value for column in Column if column in present]


def _listed(names: Iterable[str], word: str = "and") -> str:
    found = list(dict.fromkeys(str(name) for name in sorted(names)))
    return f" {word} ".join(filter(None, (", ".join(found[:-1]), found[-1]))) if found else ""


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s" if milliseconds < 10_000 else f"{milliseconds / 1000:.0f} s"


def _partition(where: TopicPartition) -> str:
    return f"{where.topic}-{where.partition}"
