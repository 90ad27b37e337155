"""Which replication there seems to be between clusters, by the names of their topics. Pure.

A name proves no copy. So a route says only how a copy would be called; that it is one is proven record by record when
a query is moved.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstRoute:
    """A route to declare."""

    source: str
    target: str
    prefix: str = ""
    """In front of the names on the target; empty where they stay."""
    heartbeats: str | None = None
    offset_syncs: str | None = None

    def as_yaml(self) -> dict[str, object]:
        """As the configuration has it."""
        found: dict[str, object] = {"from": self.source, "to": self.target}
        found["topics"] = {"prefix": self.prefix} if self.prefix else "identity"
        if self.heartbeats is not None:
            found["heartbeats"] = self.heartbeats
        if self.offset_syncs is not None:
            found["offset_syncs"] = self.offset_syncs
        return found


def routes_between(
    clusters: Mapping[str, Collection[str]], wanted: Collection[str]
) -> tuple[tuple[FirstRoute, ...], tuple[str, ...]]:
    """The routes from the first cluster to each other one, and back where names stay; and what could not be decided.

    ``clusters`` has by name the topics; ``wanted`` are those that must be found, by their names on the first; empty:
    the topics that people made there.
    """
    home, *others = clusters
    routes: list[FirstRoute] = []
    remarks: list[str] = []
    own = sorted(wanted) or sorted(each for each in clusters[home] if not _is_replicators(each, clusters))
    missing = [each for each in own if each not in clusters[home]]
    if missing:
        remarks.append(f"{home} has no topic {', '.join(missing)}, which a query reads")
    for other in others:
        there = clusters[other]
        same, prefixed = [e for e in own if e in there], [e for e in own if f"{home}.{e}" in there]
        if own and len(same) == len(own) and not prefixed:
            routes += [_route(home, other, there), _route(other, home, clusters[home])]
        elif own and len(prefixed) == len(own) and not same:
            routes.append(_route(home, other, there, prefix=f"{home}."))
        elif not own:
            remarks.append(f"{home} has no topic, so no route to {other} is declared: add it under routes")
        else:
            remarks.append(
                f"no route from {home} to {other} is declared: of {len(own)} topics {other} has {len(same)} by the "
                f"same name and {len(prefixed)} as {home}.TOPIC; add it under routes"
            )
    return tuple(routes), tuple(remarks)


def _route(source: str, target: str, there: Collection[str], *, prefix: str = "") -> FirstRoute:
    heartbeats, syncs = f"{source}.heartbeats", f"mm2-offset-syncs.{source}.internal"
    return FirstRoute(
        source=source,
        target=target,
        prefix=prefix,
        heartbeats=heartbeats if heartbeats in there else None,
        offset_syncs=syncs if syncs in there else None,
    )


def _is_replicators(topic: str, clusters: Collection[str]) -> bool:
    """MirrorMaker 2's own, and copies of another cluster's."""
    own = topic.startswith(("mm2-", "heartbeats", "__")) or topic.endswith((".internal", ".heartbeats"))
    return own or any(topic.startswith(f"{name}.") for name in clusters)
