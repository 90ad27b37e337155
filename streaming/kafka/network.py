"""kafka-python's event loop and connections, with a bound on every wait.

The library bounds connecting and requests, but neither a TLS handshake nor a name look-up, and its convenience
clients draw one bootstrap server at random. So the loop's thread only sends and receives here: a caller hands over
questions, waits on its own clock, and takes what has come by then. A name server that stalls the loop's thread makes
answers late, never a caller.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka import errors
from kafka.net.selector import NetworkSelector

from streaming.clocks import Deadline
from streaming.errors import ClusterUnreachable, CredentialRefused, WrongCluster
from streaming.kafka.connections import Connections, Milestones, Node
from streaming.kafka.pacing import Lane, Pacer
from streaming.kafka.security import Credentials
from streaming.probe.identities import Identify, anyone

# A dead broker is our callers' news: the library's own lines would log each attempt at level ERROR.
logging.getLogger("kafka").addHandler(logging.NullHandler())

_CLOSING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """One request for one broker; a request object serves once."""

    node: Node
    request: Any


class BrokerAnswers:
    """What has come so far of several questions; filled by the loop's thread, waited for by the caller's."""

    def __init__(self, count: int, *, first_success_ends: bool) -> None:
        self.outcomes: list[Any] = [None] * count
        """Per question its response, its exception, or None when neither has come."""
        self.winner: int | None = None
        """Index of the first response."""
        self.delay = 0.0
        """Seconds by which the last of them is sent late, because its connection had to wait for its turn."""
        self._left = count
        self._first_success_ends = first_success_ends
        self._over = threading.Event()
        if not count:
            self._over.set()

    def take(self, index: int, outcome: Any) -> None:
        """Keep one outcome; only the loop's thread calls this."""
        self.outcomes[index] = outcome
        self._left -= 1
        success = not isinstance(outcome, BaseException)
        if success and self.winner is None:
            self.winner = index
        if not self._left or (success and self._first_success_ends):
            self._over.set()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is wanted."""
        return self._over.is_set()

    def wait(self, deadline: Deadline) -> None:
        """Return when all is in (or the first, if that is enough), at the latest ``delay`` after the deadline."""
        if not self._over.wait(deadline.remaining) and self.delay:
            self._over.wait(Deadline(deadline.at + self.delay).remaining)


class Network:
    """One event loop on its own daemon thread, and the connections on it. Safe for calls from several threads."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        credentials: Credentials,
        identify: Identify = anyone,
        *,
        pacer: Pacer | None = None,
        lane: Lane = Lane.LOOK_UP,
    ) -> None:
        """``pacer`` says when a new connection may be opened; without it, at once."""
        self._pacer = pacer or Pacer(None)
        self._lane = lane
        self.delayed = 0.0
        """Seconds by which the newest requests of a probe were late, because connections waited for their turn."""
        self._loop = NetworkSelector(**settings)
        self._identify = identify
        self._confirmed: str | None = None
        self._is_foreign = False
        self._connections = Connections(self._loop, credentials, self._confirm, **settings)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._loop.start()
        self._soon(self._note_thread)

    @property
    def nodes(self) -> list[Node]:
        """The configured servers and every broker learnt since."""
        cluster = self._connections.cluster
        return [broker.node_id for broker in (*cluster.bootstrap_brokers(), *cluster.brokers())]

    def address(self, node: Node) -> str:
        """Where a node listens, for sentences."""
        broker = self._connections.cluster.broker_metadata(node)
        return f"broker {node}" if broker is None else f"{broker.host}:{broker.port}"

    def milestones(self, node: Node) -> Milestones | None:
        """How far the newest connection to a node came; None when there was none."""
        return self._connections.milestones.get(node)

    @property
    def is_over(self) -> bool:
        """Whether it is closed and its thread has ended; a name look-up can hold that up for a while."""
        return self._closed and (self._thread is None or not self._thread.is_alive())

    @property
    def is_foreign(self) -> bool:
        """Whether a connection that is kept may lead to a cluster that does not have the name, or no longer.

        The name may have gone to another cluster (``accept-cluster``) while connections to the former one live, or a
        gateway has turned behind one. Addresses, leaders and connections are of that cluster then: make a new network.
        """
        if not self._is_foreign and self._confirmed is not None:
            try:
                self._identify(self._confirmed)
            except WrongCluster:
                self._is_foreign = True
        return self._is_foreign

    def _confirm(self, seen: str | None) -> None:
        self._identify(seen)
        self._confirmed = seen

    def room(self, seconds: float) -> int | None:
        """To how many brokers a request can be sent within so many seconds, one at least; None: to any number."""
        new = self._pacer.room(seconds)
        return None if new is None else new + self._connections.count

    def learn_brokers(self, metadata: Any) -> None:
        """Take broker addresses from a metadata response that has been stripped of its topics.

        Raises WrongCluster: behind a connection that is kept, a gateway may have turned to another cluster.
        """
        try:
            self._confirm(metadata.cluster_id)
        except WrongCluster:
            self._is_foreign = True
            raise
        self._connections.cluster.update_metadata(metadata)

    def exchange(
        self, questions: Sequence[BrokerRequest], deadline: Deadline, *, patience: float | None = None
    ) -> list[Any]:
        """Send all at once; return, by the deadline, a response, an exception or None (no answer) for each.

        With ``patience`` the wait ends after this many seconds if anybody has answered by then: a silent broker among
        living ones does not hold the others up.
        """
        answers = self._send(questions, deadline, first_success_ends=False)
        answers.wait(deadline if patience is None else deadline.soonest(patience))
        if answers.winner is None:
            answers.wait(deadline)
        self.delayed = answers.delay
        return list(answers.outcomes)

    def race(self, questions: Sequence[BrokerRequest], deadline: Deadline) -> tuple[int | None, list[Any]]:
        """Send all at once and return when the first response is in, with its index; slower connections are closed."""
        answers = self._send(questions, deadline, first_success_ends=True)
        answers.wait(deadline)
        self.delayed = answers.delay
        winner, outcomes = answers.winner, list(answers.outcomes)
        losers = [question.node for index, question in enumerate(questions) if index != winner]
        self._soon(lambda: self._connections.drop(losers))
        return winner, outcomes

    def close(self) -> None:
        """Drop every connection and end the thread; returns within about a second whatever the brokers do."""
        with contextlib.suppress(ClusterUnreachable):  # closed before
            self._soon(self._connections.close)
        self._loop.stop(timeout_ms=int(_CLOSING_SECONDS * 1000))
        self._closed = True
        with contextlib.suppress(RuntimeError):  # the thread still sits in a name look-up: it ends on its own after it
            self._loop.close()

    def _send(
        self, questions: Sequence[BrokerRequest], deadline: Deadline, *, first_success_ends: bool
    ) -> BrokerAnswers:
        answers = BrokerAnswers(len(questions), first_success_ends=first_success_ends)
        send = self._send_probe if self._lane is Lane.PROBE else self._send_in_turn
        self._soon(lambda: send(questions, deadline, answers))
        return answers

    def _send_probe(self, questions: Sequence[BrokerRequest], deadline: Deadline, answers: BrokerAnswers) -> None:
        """A probe's connections are spread. The time of each begins with its turn, for a wait is no silence."""
        new = list(dict.fromkeys(each.node for each in questions if not self._connections.has(each.node)))
        turns = dict(zip(new, self._pacer.spread(len(new), deadline.remaining / 2), strict=True))
        answers.delay = max(turns.values(), default=0.0)
        late = Deadline(deadline.at + answers.delay)

        def send(index: int, question: BrokerRequest) -> None:
            if answers.is_over:
                return  # another broker has answered: this connection is not needed
            if not self._connections.has(question.node):
                self._pacer.opened()
            self._send_one(question, late, partial(answers.take, index))

        def later(index: int, question: BrokerRequest) -> Callable[[], None]:
            return lambda: send(index, question)  # the loop takes functions, and no other callables

        for index, question in enumerate(questions):
            turn = turns.get(question.node, 0.0)
            if turn:
                self._loop.call_later(turn, later(index, question))
            else:
                send(index, question)

    def _send_in_turn(self, questions: Sequence[BrokerRequest], deadline: Deadline, answers: BrokerAnswers) -> None:
        """Look-ups wait for their turn, and fail where it does not come in time."""

        def send(index: int, question: BrokerRequest) -> None:
            if answers.is_over:
                return
            wait = 0.0 if self._connections.has(question.node) else self._pacer.take(self._lane)
            if not wait:
                self._send_one(question, deadline, partial(answers.take, index))
            elif wait >= deadline.remaining:
                answers.take(index, self._pacer.late(wait))
            else:
                self._loop.call_later(wait, lambda: send(index, question))

        for index, question in enumerate(questions):
            send(index, question)

    def _note_thread(self) -> None:
        self._thread = threading.current_thread()

    def _send_one(self, question: BrokerRequest, deadline: Deadline, take: Any) -> None:
        milliseconds = max(1, int(deadline.remaining * 1000))
        try:
            self._connections.forget_failures(question.node)
            connection = self._connections.get_connection(
                question.node,
                timeout_ms=milliseconds,
                refresh_metadata_on_err=False,  # the library's own refresh may create topics
            )
            answer = connection.send_request(question.request, request_timeout_ms=milliseconds)
        except (errors.KafkaError, CredentialRefused) as error:
            take(error)
            return
        answer.add_both(take)

    def _soon(self, action: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError as error:
            raise ClusterUnreachable("the link to the cluster is closed") from error
