"""Which ACL is missing, in Kafka's own words: what ``kafka-acls.sh`` must be told to allow.

A broker says only that something was refused. What was asked for tells which operation it wanted (``KafkaApis``): a
fetch wants Read of the topic, every other question of ours Describe, which Read allows as well.
"""

from collections.abc import Collection
from dataclasses import replace

from streaming.log import PartitionError

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
