"""100,000 partitions looked up by time on a fake cluster of twelve brokers: ours, and librdkafka's.

The brokers are fakes that keep their answers (see ``fake_brokers``), queried once unmeasured by each client. So the
figures are what a client computes and loopback carries, and nothing of what real brokers would search. *warm*: the
look-up alone, by a client that is connected and knows the leaders; *cold*: from making the client to closing it,
the metadata of all topics included. Every answer is checked.
"""

from collections.abc import Callable
from contextlib import closing
from functools import cache

from bench.fake_brokers import BASE_MS, STEP_MS, fake_brokers, offset_at, topic_name
from bench.librdkafka_lookup import TheirLookup
from bench.link_lookup import OurLookup
from bench.report import Row
from bench.samples import multiple
from bench.setting import Setting
from bench.timings import Answers, Timings, request_once
from state.model.entities import TopicPartition

NAME = "many"
BROKERS = 12
TOPICS = 1_000
PARTITIONS_EACH = 100
ROUNDS = 5
THEIR_ROUNDS = 1
"""Half a minute and more each."""
WARM_MS = 1_500.0
COLD_TIMES = 1.5
"""To reach, of our own time when connected."""
_THEIR_SECONDS = 300.0
LOOKUP_MS = BASE_MS + 500 * STEP_MS - 1


@cache
def partitions() -> tuple[TopicPartition, ...]:
    """All of them."""
    return tuple(TopicPartition(topic_name(topic), n) for topic in range(TOPICS) for n in range(PARTITIONS_EACH))


def count_wrong(answers: Answers) -> int:
    """How many partitions were answered with another offset than theirs."""
    return sum(answers.get(each) != offset_at(each.partition, LOOKUP_MS) for each in partitions())


def measure(setting: Setting) -> list[Row]:
    """Take all samples in turns. Raises BenchError when an answer of ours is wrong."""
    setting.say(f"{BROKERS} fake brokers, {len(partitions()):,} partitions")
    timings = Timings(count_wrong)
    with fake_brokers(brokers=BROKERS, topics=TOPICS, partitions=PARTITIONS_EACH) as bootstrap:
        with closing(OurLookup(bootstrap)) as ours:
            clients: dict[str, Callable[[], Answers]] = {
                "ours warm": lambda: ours.request(partitions(), LOOKUP_MS),
                "ours cold": lambda: request_once(OurLookup(bootstrap), partitions(), LOOKUP_MS),
            }
            setting.say(f"{ROUNDS} rounds: ours")
            timings.take_rounds(clients, ROUNDS)
        timings.require_ours()
        setting.say(f"{THEIR_ROUNDS + 1} rounds: confluent-kafka")
        with closing(TheirLookup(bootstrap, timeout=_THEIR_SECONDS)) as theirs:
            timings.take_rounds({"theirs warm": lambda: theirs.request(partitions(), LOOKUP_MS)}, THEIR_ROUNDS)
    warm = timings.spread("ours warm")
    return [
        Row(
            measurement=NAME,
            what=f"{len(partitions()):,} partitions by time, {state}",
            unit="ms",
            ours=timings.spread(f"ours {state}"),
            limit=limit,
            others=(timings.other("theirs warm", "confluent-kafka offsets_for_times, warm"),),
            note=(
                f"{BROKERS} fake brokers on loopback that keep their answers: the client's cost, no broker's search."
                f" Reach, cold: {COLD_TIMES:g} times our own when connected."
            ),
        )
        for state, limit in (("warm", WARM_MS), ("cold", multiple(COLD_TIMES, warm)))
    ]
