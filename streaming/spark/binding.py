"""Which line of an offset log belongs to which declared source; pure.

A v1 entry knows its sources by their place in the plan only, which the order of declaration usually is but need not
be: ``join(b, a)`` turns it round. So what the offsets say comes first: the topics that a line reads. The order decides
only between lines that their topics cannot tell apart, and a guess is never made.
"""

from collections.abc import Collection, Iterable, Mapping

from streaming.spark.checkpoint_text import OffsetEntry, TopicOffsets, parse_kafka_offsets
from streaming.spark.errors import AmbiguousSources

Declared = Mapping[str, Collection[str]]
"""Source name to its topics, in the order of declaration and by their names on the active cluster; a source that
subscribes by a pattern has none here, and may read any topic."""


def bind_sources(entries: Iterable[OffsetEntry], declared: Declared) -> Mapping[str, str]:
    """Map each source's key in the entry to its declared name.

    Several entries of one log may be given: a source that was still without an offset in one is known by another.
    Raises ``AmbiguousSources`` when it cannot be told.
    """
    topics = _topics(entries)
    lines = [key for key in topics if topics[key] != set() or key in declared]
    if len(lines) != len(declared):
        raise AmbiguousSources(
            f"the checkpoint has {len(lines)} Kafka sources, and {len(declared)} are declared",
            hint="the configuration's sources must be those that the query was started with",
        )
    choices = {key: _choices(key, topics[key], declared) for key in lines}
    bound: dict[str, str] = {}
    while len(bound) < len(lines):
        certain = _certain(choices, bound) or _by_order(choices, bound)
        bound |= certain
    return bound


def source_offsets(entry: OffsetEntry, bound: Mapping[str, str]) -> dict[str, dict[str, dict[str, int]]]:
    """The offsets of an entry below the names of their sources; a source without an offset yet is left out."""
    return {
        name: {topic: dict(partitions) for topic, partitions in offsets.items()}
        for key, name in bound.items()
        if (offsets := _kafka(entry, key)) is not None
    }


def _kafka(entry: OffsetEntry, key: str) -> TopicOffsets | None:
    text = entry.sources.get(key)
    return None if text is None else parse_kafka_offsets(text)


def _topics(entries: Iterable[OffsetEntry]) -> Mapping[str, set[str] | None]:
    """Topics by source key, in plan order: None while unknown, empty for a source that is not Kafka's."""
    found: dict[str, set[str] | None] = {}
    for entry in entries:
        for key, text in entry.sources.items():
            if text is None:
                found.setdefault(key, None)
            else:
                found[key] = (found.get(key) or set()) | set(parse_kafka_offsets(text) or {})
    return dict(
        sorted(found.items(), key=lambda item: (not item[0].isdigit(), int(item[0]) if item[0].isdigit() else 0))
    )


def _choices(key: str, topics: set[str] | None, declared: Declared) -> list[str]:
    if key in declared:
        return [key]
    if topics is None:
        return list(declared)
    named = [name for name, own in declared.items() if own and topics <= set(own)]
    return named or [name for name, own in declared.items() if not own]


def _certain(choices: Mapping[str, list[str]], bound: Mapping[str, str]) -> dict[str, str]:
    """One line that has a single name left, or none."""
    taken = set(bound.values())
    for key, names in choices.items():
        if key in bound:
            continue
        left = [name for name in names if name not in taken]
        if not left:
            raise AmbiguousSources(
                f"source {key} of the checkpoint reads topics that no declared source is left for",
                hint="declare each source with the topics that it reads on its active cluster",
            )
        if len(left) == 1:
            return {key: left[0]}
    return {}


def _by_order(choices: Mapping[str, list[str]], bound: Mapping[str, str]) -> dict[str, str]:
    """The order of declaration, for as many lines that look alike as there are sources that they could be."""
    taken = set(bound.values())
    alike: dict[tuple[str, ...], list[str]] = {}
    for key, names in choices.items():
        if key not in bound:
            alike.setdefault(tuple(name for name in names if name not in taken), []).append(key)
    for group, keys in alike.items():
        if len(group) == len(keys) and all(key.isdigit() for key in keys):
            return dict(zip(keys, group, strict=True))
    raise AmbiguousSources(
        f"sources {', '.join(key for key in choices if key not in bound)} of the checkpoint cannot be told apart",
        hint="give the declared sources topics that differ",
    )
