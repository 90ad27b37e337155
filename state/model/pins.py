"""Which Kafka cluster is behind a name. Frozen, and pure.

A name leads to whatever its bootstrap servers lead to. The name of a gateway, a sticky endpoint or a wrong line of DNS
may lead to another cluster, whose offsets mean other records. So the id that a cluster gives itself is *pinned* to its
name when it is first seen, and nothing continues under that name with another one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from state.model.entities import Assignment


class Placement(NamedTuple):
    """Where a query was placed under a name that has led to another cluster since."""

    query: str
    placed_epoch: int
    id: str
    """The cluster in which its offsets count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """The id of the cluster that has a name; one row for each name."""

    cluster: str
    id: str
    pinned_at: datetime
    """When the first cluster was seen under the name."""
    replaced_at: datetime | None = None
    """When it took the name over from another one: what was known of the name before is of that one."""
    former: tuple[Placement, ...] = ()
    """Queries that were on the cluster which had the name before: none of their offsets count in this one."""

    def former_of(self, query: str, placed_epoch: int) -> Placement | None:
        """The query's placement, if that was on another cluster under this name."""
        return next((each for each in self.former if each[:2] == (query, placed_epoch)), None)

    def replaced(self, new: str, at: datetime, assignments: Iterable[Assignment]) -> "Pin":
        """The pin of the cluster that takes the name over, with the queries that are left on the old one.

        One that was left on this very cluster earlier, before an operator decided otherwise, is at home again.
        """
        here = [each for each in assignments if each.cluster == self.cluster]
        known = [self.former_of(each.query, each.placed_epoch) for each in here]
        left = [
            before or Placement(each.query, each.placed_epoch, self.id)
            for each, before in zip(here, known, strict=True)
        ]
        return replace(self, id=new, replaced_at=at, former=tuple(each for each in left if each.id != new))

    def without(self, query: str) -> "Pin":
        """The pin of a store that forgets a query: declared again, its epochs begin again."""
        return replace(self, former=tuple(each for each in self.former if each.query != query))


def key_of_id(cluster: str, endpoint: str | None) -> str:
    """Where the configuration has the id of a cluster."""
    return f"clusters.{cluster}.id" if endpoint is None else f"clusters.{endpoint}.ids.{cluster}"


def strange(
    cluster: str, seen: str, configured: str | None, pin: Pin | None, endpoint: str | None = None
) -> str | None:
    """Why what answers under a name is not the cluster that has it, and the way out; None where it is, or may be."""
    if configured is not None and seen != configured:
        key = key_of_id(cluster, endpoint)
        return f"{cluster} leads to cluster {seen}, but {key} says {configured}: correct bootstrap or id"
    if pin is not None and seen != pin.id:
        return (
            f"{cluster} leads to cluster {seen}, but was cluster {pin.id} until now: correct bootstrap; "
            f"if it was replaced on purpose: tideover accept-cluster {cluster}"
        )
    return None


def elsewhere(cluster: str, seen: str, endpoint: str | None, others: Mapping[str, str]) -> str | None:
    """Where a cluster's endpoint leads that now leads to another of its clusters; ``others`` are those, by id."""
    other = others.get(seen)
    return None if other is None else f"endpoint {endpoint} leads to {other} now, cluster {seen}, and not to {cluster}"


def left_behind(cluster: str, placement: Placement) -> str:
    """Why a query that is still placed on the cluster which had a name before is not run there."""
    query = placement.query
    return (
        f"{query} last ran on cluster {placement.id}, and {cluster} is another cluster now: its offsets mean other "
        f"records there; tideover failover {query}"
    )
