"""Kafka's errors as ``PartitionError``, the ACL that is missing, and what kept a probe from a broker's answer."""

import errno
import socket
import ssl
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from kafka import errors

from state.error_meanings import OURS, RETRIABLE, Meaning
from state.model.cluster_status import Fault
from streaming.cluster_log import PartitionError
from streaming.errors import CredentialRefused, WrongCluster
from streaming.kafka.security import Hindrance, hindrance
from streaming.probe.probe_result import ProbeFailure

# Renamed by Kafka since the library wrote its list (KIP-392, 2.6).
UNKNOWN: int = errors.UnknownTopicOrPartitionError.errno
_CURRENT_NAMES = {6: "NOT_LEADER_OR_FOLLOWER"}


def code_error(code: int, text: str = "") -> PartitionError | None:
    """Name a response's error code; None for code 0."""
    if not code:
        return None
    kind = errors.for_code(code)
    name = _CURRENT_NAMES.get(code) or getattr(kind, "message", None) or f"ERROR_{code}"
    described = text or getattr(kind, "description", None) or name
    return PartitionError(name=name, text=" ".join(described.split()), retriable=bool(kind.retriable))


def no_leader() -> PartitionError:
    """Name the state of a partition without a leader."""
    return PartitionError(name="LEADER_NOT_AVAILABLE", text="the partition has no leader", retriable=True)


def unknown_partition(*, retriable: bool = False) -> PartitionError:
    """Name the state of a partition that its cluster does not have.

    Retriable only where what is remembered may be out of date: there is no waiting for a topic to be made.
    """
    text = "the cluster has no such topic or partition"
    return PartitionError(name="UNKNOWN_TOPIC_OR_PARTITION", text=text, retriable=retriable)


def broken(outcome: BaseException | None, address: str) -> PartitionError:
    """Name what became of a question that a broker did not answer."""
    text = f"{address}: {in_words(outcome)}"
    if silent(outcome):
        return PartitionError(name="TIMED_OUT", text=text, retriable=True)
    if isinstance(outcome, errors.UnsupportedVersionError):
        return PartitionError(
            name="UNSUPPORTED_VERSION", text=f"{address}: the broker is too old for this request", retriable=False
        )
    if isinstance(outcome, CredentialRefused):
        return PartitionError(name="CREDENTIAL_REFUSED", text=str(outcome), retriable=False)
    name = getattr(outcome, "message", None) or "NETWORK_EXCEPTION"
    held = hindrance(outcome)
    if held is not None:
        return PartitionError(
            name=str(name), text=f"{address}: {held.text}", retriable=held.meaning in RETRIABLE or _can_pass(outcome)
        )
    return PartitionError(name=str(name), text=text, retriable=_can_pass(outcome))


def _can_pass(outcome: object) -> bool:
    return isinstance(outcome, errors.RetriableError)


def refuse_strangers(outcomes: Iterable[Any]) -> None:
    """Raise WrongCluster where a broker of another cluster came instead of an answer."""
    for outcome in outcomes:
        if isinstance(outcome, WrongCluster):
            raise outcome


def silent(outcome: Any) -> bool:
    """Whether time ran out, as opposed to a refusal."""
    return outcome is None or isinstance(outcome, errors.KafkaTimeoutError | errors.RequestTimedOutError)


def in_words(outcome: Any) -> str:
    """Say in a few words why there is no response."""
    if silent(outcome):
        return "no answer in time"
    return str(outcome.args[0]) if outcome.args else type(outcome).__name__


READ, DESCRIBE = "Read", "Describe"

_RESOURCES = {
    "TOPIC_AUTHORIZATION_FAILED": "topic",
    "GROUP_AUTHORIZATION_FAILED": "group",
    "CLUSTER_AUTHORIZATION_FAILED": "cluster",
}


def is_denied(error: PartitionError) -> bool:
    """Whether an ACL is what is missing."""
    return error.name in _RESOURCES


def no_acl(operation: str, topics: Collection[str]) -> str:
    """The sentence for topics.

    In Kafka's own words: what ``kafka-acls.sh`` must allow. A broker says only that something was refused.
    The request shows which operation was refused (``KafkaApis``): a fetch wants Read of the topic, every other
    question of ours Describe, which Read allows as well.
    """
    word = "topic" if len(topics) == 1 else "topics"
    return f"our user has no ACL that allows {operation} on {word} {', '.join(sorted(topics))}"


def explained(error: PartitionError, operation: str, topic: str) -> PartitionError:
    """The error of one partition or topic, saying what is missing where an ACL is; any other as it was."""
    resource = _RESOURCES.get(error.name)
    if resource is None:
        return error
    if resource == "topic":
        return replace(error, text=no_acl(operation, [topic]))
    return replace(error, text=f"our user has no ACL on the {resource} for this request ({operation} of {topic})")


_HERE = {
    errno.ENETUNREACH: "network",
    errno.ENETDOWN: "network",
    errno.EADDRNOTAVAIL: "network",
    errno.EPERM: "firewall",  # how a rule for outgoing packets on this very host shows
    errno.EACCES: "firewall",
    errno.EMFILE: "files",
    errno.ENFILE: "files",
    errno.ENOBUFS: "memory",
    errno.ENOMEM: "memory",
}
_THEIRS = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.EPIPE: "reset",
    errno.ECONNABORTED: "reset",
    errno.EHOSTUNREACH: "unreachable",
    errno.EHOSTDOWN: "unreachable",
    errno.ETIMEDOUT: "silent",
}
THROTTLED = "throttled"
_HELD_UP = {Meaning.THROTTLED: THROTTLED, Meaning.PASSING: "authentication", Meaning.CLOCK: "clock"}
"""What keeps us out although neither our credentials nor the cluster are at fault; it says nothing of the cluster,
so it moves nothing.
"""
_ALIVE = frozenset({"credential", "permission", "version", "protocol", *_HELD_UP.values()})
"""What only something that lives can answer."""
_UNKNOWN_NAME = (socket.EAI_NONAME, socket.EAI_NODATA)


def trouble_of(outcome: Any, address: str, *, answered_before: bool) -> ProbeFailure:
    """Classify what came instead of one broker's response; ``None`` is silence.

    ``answered_before``: this cluster has answered this process, so its names and our credentials were right once.

    A failure says what it is, whose fault it is, and whether probing again can help.
    """
    if isinstance(outcome, CredentialRefused):
        return ProbeFailure(kind="credential", text=str(outcome), fault=Fault.OURS, retriable=False)
    text = f"{address}: {in_words(outcome)}"
    held = hindrance(outcome)
    if held is not None:
        return _held(held, address, is_acl=isinstance(outcome, errors.AuthorizationError))
    if silent(outcome):
        return ProbeFailure(kind="silent", text=text, fault=Fault.THEIRS, retriable=True)
    if isinstance(outcome, errors.UnsupportedVersionError):
        text = f"{address}: the broker is too old for this request"
        return ProbeFailure(kind="version", text=text, fault=Fault.OURS, retriable=False)
    if isinstance(outcome, errors.InvalidReceiveError):
        text = f"{address} does not speak Kafka, or not as configured under security ({in_words(outcome)})"
        return ProbeFailure(kind="protocol", text=text, fault=Fault.OURS, retriable=False)
    cause = _cause(outcome)
    if isinstance(cause, socket.gaierror):
        return _name_trouble(cause, text, answered_before=answered_before)
    # OpenSSL counts its errors on its own: its 1 is no EPERM
    number = cause.errno if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) else None
    if number in _HERE:
        return ProbeFailure(kind=_HERE[number], text=text, fault=Fault.HERE, retriable=True)
    theirs = _THEIRS.get(number or 0)
    if theirs == "reset" or (theirs is None and isinstance(outcome, errors.KafkaConnectionError)):
        return _hung_up(address, answered_before=answered_before)
    if theirs is not None:
        return ProbeFailure(kind=theirs, text=text, fault=Fault.THEIRS, retriable=True)
    return ProbeFailure(
        kind="error", text=text, fault=Fault.THEIRS, retriable=bool(getattr(outcome, "retriable", True))
    )


def _held(held: Hindrance, address: str, *, is_acl: bool) -> ProbeFailure:
    if held.meaning in OURS:
        kind = "permission" if is_acl else "credential"
        return ProbeFailure(kind=kind, text=f"{address} refuses us: {held.text}", fault=Fault.OURS, retriable=False)
    return ProbeFailure(
        kind=_HELD_UP.get(held.meaning, "authentication"), fault=Fault.HERE, retriable=held.meaning in RETRIABLE,
        text=f"{address} does not let us log in now: {held.text}",
    )  # fmt: skip


def summed(troubles: Iterable[ProbeFailure]) -> ProbeFailure:
    """One trouble for a cluster none of whose brokers answered.

    A broker that refuses us lives, so its word comes first; one that needs a pause may fail others in the same way.
    What brokers themselves did outweighs what could not even be tried, or one mistyped server would keep the cluster
    from ever being called dead.
    """
    known = list(troubles)
    for matching in (
        [each for each in known if each.kind == THROTTLED],
        [each for each in known if each.kind in _ALIVE],
        [each for each in known if each.fault is Fault.THEIRS],
        [each for each in known if each.fault is Fault.OURS],
        known,
    ):
        if matching:
            first = matching[0]
            text = "; ".join(dict.fromkeys(each.text for each in matching))
            return ProbeFailure(kind=first.kind, text=text, fault=first.fault, retriable=first.retriable)
    return ProbeFailure(kind="silent", text="no broker is known", fault=Fault.OURS, retriable=False)


def _hung_up(address: str, *, answered_before: bool) -> ProbeFailure:
    if answered_before:
        return ProbeFailure(kind="reset", text=f"{address} closed the connection", fault=Fault.THEIRS, retriable=True)
    text = f"{address} closes every connection and has never answered: it may expect TLS, SASL or neither"
    return ProbeFailure(kind="protocol", text=text, fault=Fault.OURS, retriable=True)


def _name_trouble(cause: socket.gaierror, text: str, *, answered_before: bool) -> ProbeFailure:
    if cause.errno not in _UNKNOWN_NAME:
        return ProbeFailure(kind="resolver", text=text, fault=Fault.HERE, retriable=True)
    if answered_before:  # in some networks a name goes with the process behind it
        return ProbeFailure(kind="name", text=text, fault=Fault.THEIRS, retriable=True)
    return ProbeFailure(kind="name", text=text, fault=Fault.OURS, retriable=False)


def _cause(outcome: Any) -> BaseException | None:
    """The innermost reason that an exception names."""
    seen = outcome if isinstance(outcome, BaseException) else None
    while seen is not None:
        inner = seen.__cause__ or next((arg for arg in seen.args if isinstance(arg, BaseException)), None)
        if inner is None or inner is seen:
            return seen
        seen = inner
    return None
