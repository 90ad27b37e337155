"""Entries of both logs as the companion reports them, the moment a run has published them.

Its file manager puts each into a queue in the driver's JVM (``BatchNews.java``). The follower of the run waits there
instead of looking at folders ten times a second. What arrives is a copy of what lies in the checkpoint. Nothing is lost
with a queue that overflows or a JVM that dies, for the folders are looked at all the same, only seldom.
"""

import uuid
from dataclasses import dataclass

from pyspark.sql import SparkSession

from streaming.spark.jvm import JavaObject, java_context, java_view

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_OURS = "tideover."


@dataclass(frozen=True, slots=True)
class RunName:
    """A run, as the companion admits it to its checkpoint and names it in a refusal."""

    query: str
    epoch: int
    checkpoint: str


@dataclass(frozen=True, slots=True)
class PublishedEntry:
    """``offsets/7`` or ``commits/7``, whole."""

    log: str
    batch: int
    content: bytes


class BatchNews:
    """What one run publishes from now on; to be made before it starts, or of a run that is followed already."""

    def __init__(self, session: SparkSession, follower: str) -> None:
        """``follower``: by which the companion knows the run, as it is admitted."""
        self._queue: JavaObject = java_view(session).tideover.BatchNews
        self.follower = follower
        self._queue.follow(follower)

    def take(self, seconds: float) -> list[PublishedEntry]:
        """All that was published since the last time, oldest first; waits so long for the first. Raises py4j's errors.

        The wait is the JVM's: a follower that must be woken by something else as well waits for less.
        """
        taken = []
        news = self._queue.take(self.follower, round(seconds * 1000))
        while news is not None:
            taken.append(read_news(str(news)))
            news = self._queue.take(self.follower, 0)
        return taken

    def close(self) -> None:
        """Keep nothing more: the run is over."""
        self._queue.leave(self.follower)


def read_news(text: str) -> PublishedEntry:
    """An entry as it arrives: its name, a line break, its content."""
    name, _, content = text.partition("\n")
    log, _, batch = name.partition("/")
    return PublishedEntry(log, int(batch), content.encode())


def has_companion(session: SparkSession) -> bool:
    """Whether the companion's file manager is the one of this session."""
    return str(session.conf.get(MANAGER, "")).startswith(_OURS)


def follow(session: SparkSession, run: RunName) -> BatchNews | None:
    """Admit a run that this session will start; None where its file manager is not the companion's."""
    if not has_companion(session):
        return None
    news = BatchNews(session, uuid.uuid4().hex)
    conf = java_context(session).hadoopConfiguration()
    java_view(session).tideover.Admissions.grant(conf, run.checkpoint, run.query, run.epoch, news.follower)
    return news
