"""How the copies of a route are, by the word of its replicator: whether a topic is still a mirror.

A topic that is still a mirror takes no record of a producer, and its end may be cut when it is stopped. Confluent's
Cluster Linking answers ``GET .../links/LINK/mirrors/TOPIC`` of its REST API, version 3. Redpanda's Shadowing answers
``ShadowLinkService/GetShadowTopic`` of its admin API, version 2. Both were read in their documents, and the tests use
small servers that answer alike.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from state.settings.replicators import Replicator, ReplicatorKind
from streaming.errors import ServiceTrouble
from streaming.rest import Service

ANSWER_SECONDS = 2.0
"""For the answer on one topic."""
VALID_SECONDS = 2.0
_ABSENT = 404


State = tuple[str | None, bool]
"""The replicator's own word for a topic, such as ``ACTIVE``, and whether the topic is an ordinary one now. The word is
None where the replicator does not know the topic."""


def mirror_states(replicator: Replicator, topics: Iterable[str], *, timeout: float) -> dict[str, State] | None:
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
            tuple[Replicator, frozenset[str]], tuple[float, dict[str, State] | ServiceTrouble | None]
        ] = {}

    def request(self, replicator: Replicator, topics: Collection[str]) -> dict[str, State] | None:
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


_Question = Callable[[Service, Replicator, str, float], State]
"""The state of a topic. Raises ``ServiceTrouble``, and ``LookupError`` or ``TypeError`` for another shape."""


def _state(service: Service, request: _Question, replicator: Replicator, topic: str, timeout: float) -> State:
    try:
        return request(service, replicator, topic, timeout)
    except ServiceTrouble as trouble:
        if trouble.status == _ABSENT:
            return None, False
        raise
    except (LookupError, TypeError) as error:
        raise service.odd(f"no state of {topic} ({error!r})") from None


def _of_link(service: Service, replicator: Replicator, topic: str, timeout: float) -> State:
    answer: Mapping[str, Any] = service.query(f"/mirrors/{quote(topic, safe='')}", timeout=timeout)
    state = str(answer["mirror_status"]).upper()
    return state, state == "STOPPED"


def _of_shadow(service: Service, replicator: Replicator, topic: str, timeout: float) -> State:
    requested = {"shadowLinkName": replicator.link, "name": topic}
    path = "/redpanda.core.admin.v2.ShadowLinkService/GetShadowTopic"
    answer: Mapping[str, Any] = service.query(path, timeout=timeout, body=requested)
    state = str(answer["shadowTopic"]["status"]["state"]).removeprefix("SHADOW_TOPIC_STATE_")
    return state, state in {"FAILED_OVER", "PROMOTED"}


_QUESTIONS: Mapping[ReplicatorKind, _Question] = {
    ReplicatorKind.CLUSTER_LINKING: _of_link,
    ReplicatorKind.SHADOWING: _of_shadow,
}
