"""What no single key can tell: rules between the groups of a configuration; pure.

They are read from the plain mapping, not from the finished settings, so that they are told together with every other
mistake; a group that is itself mistaken is passed over.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from state.written import parse_duration, write_duration


def contradictions(raw: object) -> Iterator[str]:
    """One sentence for each, ``path: what``."""
    groups = _mapping(raw)
    clusters, queries = _mapping(groups.get("clusters")), _mapping(groups.get("queries"))
    yield from _of_routes(_items(groups.get("routes")), clusters)
    for name, query in queries.items():
        query = _mapping(query)
        yield from _of_names(f"queries.{name}.clusters", "cluster", query.get("clusters"), clusters)
        yield from _of_names(f"queries.{name}.runners", "runner", query.get("runners"), _mapping(groups.get("runners")))
        output = _mapping(query.get("output")).get("cluster", "active")
        if isinstance(output, str) and output not in {"active", *clusters}:
            yield f"queries.{name}.output.cluster: {output!r} is not declared"
    yield from _of_checkpoints(queries)
    yield from _of_retention(groups, queries)


def _of_routes(routes: Iterable[object], clusters: Mapping[str, object]) -> Iterator[str]:
    seen: dict[tuple[object, object], int] = {}
    for index, route in enumerate(routes):
        ends = _mapping(route).get("from"), _mapping(route).get("to")
        for end in dict.fromkeys(ends):
            if isinstance(end, str) and end not in clusters:
                yield f"routes.{index}: cluster {end!r} is not declared"
        if None in ends:
            continue
        if ends[0] == ends[1]:
            yield f"routes.{index}: from and to are both {ends[0]!r}"
        if ends in seen:
            yield f"routes.{index}: routes.{seen[ends]} is from {ends[0]!r} to {ends[1]!r} already"
        seen.setdefault(ends, index)


def _of_names(path: str, noun: str, names: object, declared: Mapping[str, object]) -> Iterator[str]:
    for name, times in Counter(name for name in _items(names) if isinstance(name, str)).items():
        if name not in declared:
            yield f"{path}: {noun} {name!r} is not declared"
        if times > 1:
            yield f"{path}: {noun} {name!r} is named twice"


def _of_checkpoints(queries: Mapping[str, object]) -> Iterator[str]:
    """Two queries on one checkpoint would each skip what the other has read."""
    owners: dict[str, str] = {}
    for name, query in queries.items():
        checkpoint = _mapping(query).get("checkpoint")
        if not isinstance(checkpoint, str):
            continue
        owner = owners.setdefault(checkpoint.rstrip("/"), name)
        if owner != name:
            yield f"queries.{name}.checkpoint: it is that of query {owner!r} already"


def _of_retention(groups: Mapping[str, object], queries: Mapping[str, object]) -> Iterator[str]:
    """A move that is forgotten before its cool-down is over would not hold back the next."""
    kept = _duration(_mapping(groups.get("retention")).get("history"))
    policies = {"policy": groups.get("policy")} | {
        f"queries.{name}.policy": _mapping(query).get("policy") for name, query in queries.items()
    }
    for path, policy in policies.items():
        cooldown = _duration(_mapping(policy).get("cooldown"))
        if kept is not None and cooldown is not None and cooldown > kept:
            yield f"{path}.cooldown: {write_duration(cooldown)} is longer than retention.history keeps operations"


def _duration(value: object) -> timedelta | None:
    try:
        return None if value is None else parse_duration(value)
    except ValueError:
        return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, (list, tuple)) else ()
