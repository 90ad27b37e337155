"""How the copies of a route are, by the word of its replicator: whether a topic is still a mirror, and up to where.

A topic that is still a mirror takes no record of a producer, and its end may be cut when it is stopped. Confluent's
Cluster Linking answers ``GET .../links/LINK/mirrors/TOPIC`` of its REST API, version 3. Redpanda's Shadowing answers
``ShadowLinkService/GetShadowTopic`` of its admin API, version 2. Both were read in their documents, and the tests use
small servers that answer alike.

Both report the end of the source as the replicator saw it last, and no record from there on was mirrored. It is
``sourceHighWatermark``, or ``last_source_fetch_offset``: 0 of an empty topic, 500,000 of one with so many records. Both
are -1 or absent where it is unknown.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from state.settings.replicators import Replicator, ReplicatorKind
from streaming.errors import ServiceTrouble
from streaming.rest import Service

ANSWER_SECONDS = 2.0
"""For the answer on one topic."""
VALID_SECONDS = 2.0
_ABSENT = 404
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class MirrorState:
    """What the replicator says of one topic."""

    word: str | None
    """Its own, such as ``ACTIVE``; None where it does not know the topic."""
    is_stopped: bool
    """Whether the topic is an ordinary one now."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """By partition, the offset from which on nothing was mirrored; none where that is unknown."""


def mirror_states(replicator: Replicator, topics: Iterable[str], *, timeout: float) -> dict[str, MirrorState] | None:
    """The state of each topic of the target; None where this kind reports nothing, or no ``url`` is set.

    ``timeout`` in seconds is of each request. Raises ``ServiceTrouble``.
    """
    request = _QUESTIONS.get(replicator.kind)
    if replicator.url is None or request is None:
        return None
    address, what = replicator.url.rstrip("/"), f"{replicator.kind}'s API"
    service = Service(address, replicator.username, replicator.password, replicator.ca, what)
    return {each: _state(service, request, replicator, each, timeout) for each in sorted(topics)}


class MirrorQuestions:
    """Questions to replicators; an answer of a moment ago counts. Not shared between threads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._known: dict[
            tuple[Replicator, frozenset[str]], tuple[float, dict[str, MirrorState] | ServiceTrouble | None]
        ] = {}

    def request(self, replicator: Replicator, topics: Collection[str]) -> dict[str, MirrorState] | None:
        """As ``mirror_states``. Raises ``ServiceTrouble``."""
        key, now = (replicator, frozenset(topics)), self._monotonic()
        requested, found = self._known.get(key, (-math.inf, None))
        if now - requested >= VALID_SECONDS:
            try:
                found = mirror_states(replicator, topics, timeout=ANSWER_SECONDS)
            except ServiceTrouble as trouble:
                found = trouble
            self._known[key] = now, found
        if isinstance(found, ServiceTrouble):
            raise found
        return found


_Question = Callable[[Service, Replicator, str, float], MirrorState]
"""The state of a topic. Raises ``ServiceTrouble``; for another shape ``LookupError``, ``TypeError``, ``ValueError``."""


def _state(service: Service, request: _Question, replicator: Replicator, topic: str, timeout: float) -> MirrorState:
    try:
        return request(service, replicator, topic, timeout)
    except ServiceTrouble as trouble:
        if trouble.status == _ABSENT:
            return MirrorState(None, False)
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise service.odd(f"no state of {topic} ({error!r})") from None


def _of_link(service: Service, replicator: Replicator, topic: str, timeout: float) -> MirrorState:
    answer: Mapping[str, Any] = service.query(f"/mirrors/{quote(topic, safe='')}", timeout=timeout)
    state = str(answer["mirror_status"]).upper()
    lags = [(each["partition"], each["last_source_fetch_offset"]) for each in answer.get("mirror_lags") or ()]
    return MirrorState(state, state == "STOPPED", _known(lags))


def _of_shadow(service: Service, replicator: Replicator, topic: str, timeout: float) -> MirrorState:
    requested = {"shadowLinkName": replicator.link, "name": topic}
    path = "/redpanda.core.admin.v2.ShadowLinkService/GetShadowTopic"
    answer: Mapping[str, Any] = service.query(path, timeout=timeout, body=requested)
    status = answer["shadowTopic"]["status"]
    state = str(status["state"]).removeprefix("SHADOW_TOPIC_STATE_")
    ends = [(each.get("partitionId", 0), each.get("sourceHighWatermark", _UNKNOWN)) for each in _partitions(status)]
    return MirrorState(state, state in {"FAILED_OVER", "PROMOTED"}, _known(ends))


def _partitions(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Of the JSON of protocol buffers: a number is a text there, and a partition 0 or a watermark 0 is left out."""
    found: Iterable[Mapping[str, Any]] = status.get("partitionInformation") or ()
    return found


def _known(ends: Iterable[tuple[Any, Any]]) -> dict[int, int]:
    """By partition, the ends that are known. Raises ``TypeError`` or ``ValueError`` where one is no number."""
    return {int(partition): int(end) for partition, end in ends if int(end) > _UNKNOWN}


_QUESTIONS: Mapping[ReplicatorKind, _Question] = {
    ReplicatorKind.CLUSTER_LINKING: _of_link,
    ReplicatorKind.SHADOWING: _of_shadow,
}
