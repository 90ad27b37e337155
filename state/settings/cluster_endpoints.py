"""Endpoints that lead to one of several clusters, and to another one after a failover of their own. Pure.

In the file such an endpoint is one entry with the ids of its clusters by name. Everything else knows the clusters: so
the entry becomes one cluster for each name, with the servers of the endpoint, its own ``id``, and the endpoint's name.
"""

from collections.abc import Iterator, Mapping

from state.settings.canonical import mapping

IDS = "ids"


def expanded(clusters: Mapping[str, object]) -> dict[str, object]:
    """The group ``clusters`` with each endpoint as its clusters; an endpoint with a mistake stays as it is."""
    found: dict[str, object] = {}
    for name, cluster in clusters.items():
        entry = mapping(cluster)
        if _has_ids(entry) and mistake(entry, _names(clusters, name)) is None:
            rest = {key: value for key, value in entry.items() if key != IDS}
            found |= {each: {**rest, "id": known, "endpoint": name} for each, known in mapping(entry[IDS]).items()}
        else:
            found[name] = cluster
    return found


def mistakes(clusters: Mapping[str, object]) -> Iterator[str]:
    """Of endpoints as the file has them, each with its path."""
    for name, cluster in clusters.items():
        entry = mapping(cluster)
        why = mistake(entry, _names(clusters, name)) if _has_ids(entry) else None
        if why is not None:
            yield f"clusters.{name}.{IDS}: {why}"


def mistake(endpoint: Mapping[str, object], others: frozenset[str]) -> str | None:
    """What is wrong with the ids of one endpoint; ``others`` are the names of all other clusters."""
    ids = mapping(endpoint[IDS])
    if len(ids) < 2:
        return "name two clusters or more, each with its id: {east: ..., west: ...}"
    if endpoint.get("id") is not None or endpoint.get("endpoint") is not None:
        return "an endpoint has the ids of its clusters: remove id and endpoint"
    taken = sorted(others & set(ids))
    return f"{' and '.join(map(repr, taken))}: already declared as another cluster" if taken else None


def in_file(reported: str, clusters: Mapping[str, object]) -> str:
    """A mistake of a cluster behind an endpoint, with the path that it has in the file; ``clusters`` are expanded."""
    group, _, rest = reported.partition(".")
    name, _, key = rest.partition(".")
    endpoint = mapping(clusters.get(name)).get("endpoint") if group == "clusters" else None
    if endpoint is None:
        return reported
    return (
        f"clusters.{endpoint}.{IDS}.{name}{key.removeprefix('id')}"
        if key[:3] == "id:"
        else f"clusters.{endpoint}.{key}"
    )


def _has_ids(entry: Mapping[str, object]) -> bool:
    return isinstance(entry.get(IDS), Mapping)  # anything else is a mistake of the key itself


def _names(clusters: Mapping[str, object], but: str) -> frozenset[str]:
    """The names of all clusters that other entries declare."""
    others = {name: mapping(cluster) for name, cluster in clusters.items() if name != but}
    return frozenset(
        each for name, entry in others.items() for each in (mapping(entry[IDS]) if _has_ids(entry) else (name,))
    )
