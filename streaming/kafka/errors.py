"""Kafka's errors as ``PartitionError``, and the ACL that is missing.

Which ACL is missing, in Kafka's own words: what ``kafka-acls.sh`` must be told to allow.

A broker says only that something was refused. What was asked for tells which operation it wanted (``KafkaApis``): a
fetch wants Read of the topic, every other question of ours Describe, which Read allows as well.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from kafka import errors

from streaming.cluster_log import PartitionError
from streaming.errors import CredentialRefused, WrongCluster

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

    Retriable only where what is remembered may be out of date: nobody waits for a topic to be made.
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
    return PartitionError(name=str(name), text=text, retriable=isinstance(outcome, errors.RetriableError))


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
    """The sentence for topics."""
    word = "topic" if len(topics) == 1 else "topics"
    return f"our user has no ACL that allows {operation} on {word} {', '.join(sorted(topics))}"


def explained(error: PartitionError, operation: str, topic: str) -> PartitionError:
    """The error of one partition or topic, saying what is missing where an ACL is; any other as it was."""
    resource = _RESOURCES.get(error.name)
    if resource is None:
        return error
    if resource == "topic":
        return replace(error, text=no_acl(operation, [topic]))
    return replace(error, text=f"our user has no ACL on the {resource} for what was asked ({operation} of {topic})")
