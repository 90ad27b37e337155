"""Asks two clusters how far the one is behind the other, partition by partition (KIP-734)."""

from collections.abc import Mapping

from state.model import EndSample, TopicPartition
from streaming.deadline import Deadline
from streaming.log import Log, Spec
from streaming.lookup import ask, ask_newest
from streaming.resume.age import Age, age, age_at

_BOUNDS = (Spec.LATEST, Spec.EARLIEST)


def replication_ages(
    source: Log, standby: Log, copies: Mapping[TopicPartition, TopicPartition], deadline: Deadline
) -> dict[TopicPartition, Age]:
    """How old each copy is, by the source's partition; ``copies`` names the standby's. Raises ``KafkaError``.

    The standby is asked first: what is copied meanwhile makes an age too large, never too small.
    """
    theirs = ask_newest(standby, copies.values(), deadline)
    bounds = ask(source, [(key, spec) for spec in _BOUNDS for key in copies], deadline)
    ours = ask_newest(source, copies, deadline)
    newest = {key: theirs[copy] for key, copy in copies.items()}
    later = {key: looked.timestamp_ms + 1 for key, looked in newest.items() if looked.timestamp_ms is not None}
    after = ask(source, later.items(), deadline)
    return {
        key: age(
            here=ours[key],
            there=newest[key],
            begin=bounds[key, Spec.EARLIEST],
            end=bounds[key, Spec.LATEST],
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
    theirs = ask_newest(standby, sampled.values(), deadline)
    return {key: age_at(samples[key], theirs[copy]) for key, copy in sampled.items()}
