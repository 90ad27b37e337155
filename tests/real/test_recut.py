"""A batch that was planned too large for its query ends run after run, until a start cuts it: nothing is lost or twice.

``filed`` writes Spark's own files, and its tasks have no memory for the batch. ``summed`` keeps state and overwrites by
batch, and its driver is killed in the middle of the batch.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from lab.world import CLUSTERS
from state.model.entities import QueryFact
from state.store.sql.migrate import open_store
from tests.real.pipelines import LIGHT, UNREAD, kept, kept_sums, sums_of
from tests.real.sinks import FILES, delivered
from tests.real.theatre import ORDERS, Theatre, settings, sides_of
from tests.scene import Driver, exactly
from tests.world import running_clusters

pytestmark = [pytest.mark.real]
FIRST, ALL, LIMIT = 40, 440, 50
FILED, SUMMED = "filed", "summed"


class Heavy(Theatre):
    """The two queries read orders."""

    def fact(self, query: str) -> QueryFact:
        return next(fact for fact in self.store.query_facts() if fact.query == query)

    def ended(self, query: str) -> int:
        """How many runs ended in the batch that is planned."""
        seen = self.fact(query).seen
        return 0 if seen is None else seen.ended_in_batch

    def is_planned(self, query: str, driver: Driver, ended: int) -> bool:
        """Whether this process runs the batch, in which so many runs have ended before."""
        fact = self.fact(query)
        is_there = fact.pid == driver.process.pid and fact.seen is not None and fact.seen.planned != fact.seen.committed
        return is_there and self.ended(query) == ended

    def cuts(self) -> dict[str, list[str]]:
        """By query, what the history has of cut batches, oldest first."""
        found: dict[str, list[str]] = {}
        for event in sorted(self.store.history(limit=1000), key=lambda event: event.sequence or 0):
            if event.kind.startswith("batch-"):
                found.setdefault(event.query or "", []).append(event.text)
        return found

    def limit(self, records: int) -> None:
        """Set ``policy.catch_up_batch``; the next runner reads it."""
        self.config.write_text(json.dumps({**self.settings, "policy": {"catch_up_batch": records}}), encoding="utf-8")

    def await_read(self, end: int) -> None:
        self.until(f"{FILED} has {end}", lambda: len(delivered(FILES, str(self.sink(FILED)), [], "")) >= end)
        self.until(
            f"{SUMMED} has {end}", lambda: sum(count for count, _ in kept_sums(self.sink(SUMMED)).values()) >= end
        )
        assert delivered(FILES, str(self.sink(FILED)), [], "") == exactly(range(end))
        assert kept_sums(self.sink(SUMMED)) == sums_of(end)
        self.assert_no_batch_skipped(SUMMED)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Heavy]:
    url = f"sqlite:///{tmp_path / 'tideover.db'}"
    with running_clusters(tmp_path / "world") as world, closing(open_store(url)) as store:
        declared = settings(world, tmp_path, url)
        queries = declared["queries"]
        filed = {**queries["rows"], "pipeline": "tests.real.pipelines:light_files"}
        summed = {**queries["sums"], "resume": "switch", "sink": "keyed"}
        declared["queries"] = {
            name: {
                **query,
                "checkpoint": str(tmp_path / "checkpoints" / name),
                "settings": {"sink": str(tmp_path / "sinks" / name)},
            }
            for name, query in ((FILED, filed), (SUMMED, summed))
        }
        with closing(Heavy(tmp_path, store, declared, sides_of(world), world=world)) as stage:
            stage.make(ORDERS)
            yield stage


def test_a_batch_that_ends_run_after_run_is_cut_and_read_whole(stage: Heavy) -> None:
    east, _ = CLUSTERS
    stage.extend(ORDERS, FIRST, east)
    stage.run("a")
    stage.await_read(FIRST)
    stage.drivers["a"].stop()
    stage.extend(ORDERS, ALL, east)
    stage.sink(SUMMED).joinpath(UNREAD).touch()
    for ended in range(3):
        driver = stage.run("a")
        stage.until(f"{SUMMED} is in its batch", partial(stage.is_planned, SUMMED, driver, ended))
        stage.until(f"{FILED} fails", lambda: "MemoryError" in (stage.fact(FILED).error or ""))
        driver.die()
    shown = stage.type("show", FILED).end().out
    assert "runs ended in batch" in shown
    assert stage.cuts() == {}, "without a limit nothing is cut"
    stage.limit(LIMIT)
    stage.run("a")
    stage.until("both are cut", lambda: stage.cuts().keys() == {FILED, SUMMED})
    stage.sink(SUMMED).joinpath(UNREAD).unlink()
    stage.await_read(ALL)
    for query, texts in stage.cuts().items():
        assert len(texts) == 1, query
        assert texts[0].endswith(f"it is cut from {ALL - FIRST} to {LIMIT} records"), query
        assert stage.ended(query) == 0, "the count ends with the commit"
    assert max(sum(row[1] for row in each["rows"]) for each in kept(stage.sink(SUMMED))[:2]) <= FIRST + LIMIT
    assert LIMIT < LIGHT
