"""Turns error codes and broken connections into ``PartitionError``, under Kafka's current names."""

from typing import Any

from kafka import errors

from streaming.errors import CredentialRefused
from streaming.log import PartitionError

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
            name="UNSUPPORTED_VERSION", text=f"{address}: the broker is too old for this question", retriable=False
        )
    if isinstance(outcome, CredentialRefused):
        return PartitionError(name="CREDENTIAL_REFUSED", text=str(outcome), retriable=False)
    name = getattr(outcome, "message", None) or "NETWORK_EXCEPTION"
    return PartitionError(name=str(name), text=text, retriable=isinstance(outcome, errors.RetriableError))


def silent(outcome: Any) -> bool:
    """Whether time ran out, as opposed to a refusal."""
    return outcome is None or isinstance(outcome, errors.KafkaTimeoutError | errors.RequestTimedOutError)


def in_words(outcome: Any) -> str:
    """Say in a few words why there is no response."""
    if silent(outcome):
        return "no answer in time"
    return str(outcome.args[0]) if outcome.args else type(outcome).__name__
