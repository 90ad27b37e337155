"""Reads from a cluster's log the records that tracks wait for: of all queries together, each record once."""

from collections.abc import Collection

from state.model import TopicPartition
from streaming.kafka.tail import read_tails
from streaming.log import Log
from streaming.spark.track import TAIL, Place, Track

_Wanted = tuple[Track, Place, int]


def read_ends(log: Log, tracks: Collection[Track], *, timeout: float) -> None:
    """Let each track learn what lies before its unread ends, each call within ``timeout`` seconds.

    A call takes one end per partition; several ends of one take several calls. Raises what ``log.fetch`` raises.
    """
    rounds = [(track, ends) for track in tracks for ends in track.unread()]
    wanted = [(track, place, end) for track, ends in rounds for place, end in ends.items()]
    while wanted:
        asked = {place.partition: end for _, place, end in reversed(wanted)}
        answered, wanted = _split(wanted, asked)
        tails = read_tails(log, asked, count=TAIL, known=_known(answered), timeout=timeout)
        for track, place, end in answered:
            tail = tails[place.partition]
            if tail.records or tail.error is None:
                track.learn(place, end, tail.records, whole=tail.error is None, leader_epoch=tail.leader_epoch)


def _split(wanted: list[_Wanted], asked: dict[TopicPartition, int]) -> tuple[list[_Wanted], list[_Wanted]]:
    """What one call answers, and what is left for the next."""
    answered = [each for each in wanted if asked[each[1].partition] == each[2]]
    return answered, [each for each in wanted if asked[each[1].partition] != each[2]]


def _known(wanted: list[_Wanted]) -> dict[TopicPartition, int]:
    """From where on each partition is to be read, so that all who want its records get them."""
    known: dict[TopicPartition, int] = {}
    for track, place, end in wanted:
        known[place.partition] = min(track.known(place, end), known.get(place.partition, end))
    return known
