"""Finds a broker that answers and keeps to it: bootstrap servers are raced, so that a hung one does not matter."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from streaming.deadline import Deadline
from streaming.errors import ClusterUnreachable, CredentialRefused
from streaming.kafka.answers import in_words, silent
from streaming.kafka.network import Network, Node, Question
from streaming.kafka.security import refusal

_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.25
_PATIENCE_SECONDS = 0.25


def metadata_request(topics: Sequence[str] | None) -> Any:
    """Ask for these topics only, or for all by None, without creating any (which needs version 4, Kafka 0.11)."""
    named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=named, allow_auto_topic_creation=False, min_version=4, max_version=12)


def pauses() -> Callable[[Deadline], None]:
    """Return a function that waits a little longer each time, never past the deadline."""
    length = _FIRST_PAUSE_SECONDS

    def pause(deadline: Deadline) -> None:
        nonlocal length
        time.sleep(min(length, deadline.remaining))
        length = min(_LONGEST_PAUSE_SECONDS, length * 2)

    return pause


class Contact:
    """Questions that any broker can answer."""

    def __init__(self, network: Network, cluster: str) -> None:
        self._network = network
        self._cluster = cluster
        self._home: Node | None = None

    def ask(self, make_request: Callable[[], Any], deadline: Deadline) -> Any:
        """Return the response of the broker that answered last, or of whichever answers first now.

        Raises ClusterUnreachable when none does by the deadline, CredentialRefused when our settings are at fault.
        """
        home, pause, seen = self._home, pauses(), dict[Node, Any]()
        if home is not None:
            # A home that went silent may use half of the time; the others get the rest.
            first = deadline.soonest(max(_PATIENCE_SECONDS, deadline.remaining / 2))
            outcome = self._network.ask([Question(home, make_request())], first)[0]
            if _is_response(outcome):
                return outcome
        while True:
            node, outcomes = self._find_home(deadline)
            if node is not None:
                outcome = self._network.ask([Question(node, make_request())], deadline)[0]
                if _is_response(outcome):
                    return outcome
                outcomes = {node: outcome}
            self._give_up_when_refused(outcomes)
            # The last attempt is cut short by the deadline: what an earlier one was told says more than its silence.
            seen.update(
                {node: outcome for node, outcome in outcomes.items() if not silent(outcome) or node not in seen}
            )
            if deadline.passed:
                raise self._unreachable(seen)
            pause(deadline)

    def _find_home(self, deadline: Deadline) -> tuple[Node | None, dict[Node, Any]]:
        nodes = self._network.nodes
        winner, outcomes = self._network.race([Question(node, metadata_request([])) for node in nodes], deadline)
        if winner is None:
            return None, dict(zip(nodes, outcomes, strict=True))
        self._network.learn_brokers(outcomes[winner])
        self._home = nodes[winner]
        return nodes[winner], {}

    def _give_up_when_refused(self, outcomes: dict[Node, Any]) -> None:
        for node, outcome in outcomes.items():
            if isinstance(outcome, CredentialRefused):
                raise CredentialRefused(f"{self._cluster}: {outcome}", hint=outcome.hint)
            reason = refusal(outcome)
            if reason:
                raise CredentialRefused(
                    f"{self._cluster}: {self._network.address(node)} refuses us: {reason}",
                    hint="check this cluster's security settings; its brokers may be well",
                )

    def _unreachable(self, outcomes: dict[Node, Any]) -> ClusterUnreachable:
        reasons = "; ".join(f"{self._network.address(node)}: {in_words(out)}" for node, out in outcomes.items())
        return ClusterUnreachable(
            f"{self._cluster}: no broker answered in time ({reasons})",
            hint="check that the brokers run and that this host reaches their listeners",
        )


def _is_response(outcome: Any) -> bool:
    return outcome is not None and not isinstance(outcome, BaseException)
