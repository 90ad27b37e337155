"""Asks two clusters how far the one is behind the other, partition by partition (KIP-734)."""

from collections.abc import Mapping

from state.model import EndSample, TopicPartition
from streaming.deadline import Deadline
from streaming.log import Log, Spec
from streaming.lookup import ask
from streaming.resume.age import Age, age, age_at

_SPECS = (Spec.LATEST, Spec.EARLIEST, Spec.MAX_TIMESTAMP)


def replication_ages(
    source: Log, standby: Log, copies: Mapping[TopicPartition, TopicPartition], deadline: Deadline
) -> dict[TopicPartition, Age]:
    """How old each copy is, by the source's partition; ``copies`` names the standby's. Raises ``KafkaError``.

    The standby is asked first: what is copied meanwhile makes an age too large, never too small.
    """
    theirs = ask(standby, [(copy, Spec.MAX_TIMESTAMP) for copy in copies.values()], deadline)
    ours = ask(source, [(key, spec) for spec in _SPECS for key in copies], deadline)
    newest = {key: theirs[copy, Spec.MAX_TIMESTAMP] for key, copy in copies.items()}
    later = {key: looked.timestamp_ms + 1 for key, looked in newest.items() if looked.timestamp_ms is not None}
    after = ask(source, later.items(), deadline)
    return {
        key: age(
            here=ours[key, Spec.MAX_TIMESTAMP],
            there=newest[key],
            begin=ours[key, Spec.EARLIEST],
            end=ours[key, Spec.LATEST],
            after=after[key, later[key]] if key in later else None,
        )
        for key in copies
    }


def ages_since(
    samples: Mapping[TopicPartition, EndSample],
    standby: Log,
    copies: Mapping[TopicPartition, TopicPartition],
    deadline: Deadline,
) -> dict[TopicPartition, Age]:
    """How old each copy is beside a source that is silent, as that was last sampled. Raises ``KafkaError``.

    Partitions without a sample are left out.
    """
    sampled = {key: copy for key, copy in copies.items() if key in samples}
    theirs = ask(standby, [(copy, Spec.MAX_TIMESTAMP) for copy in sampled.values()], deadline)
    return {key: age_at(samples[key], theirs[copy, Spec.MAX_TIMESTAMP]) for key, copy in sampled.items()}
