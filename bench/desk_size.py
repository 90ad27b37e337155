"""How quick the desk is with 100 queries of 100 partitions each.

A store is filled as runners and a leading controller leave it, in an SQLite file, and a server of the desk reads from
it. No cluster runs, for the desk queries none. Each page is requested more than a second after the one before, so that
none is as it was drawn already. The figure is from the request to the last byte, on a machine that does nothing else.
"""

import time
from contextlib import closing
from datetime import timedelta

from bench.errors import BenchError
from bench.report import Row
from bench.samples import Spread
from bench.setting import Setting
from orchestrator.http.reads import STATUS_SECONDS
from state.model.entities import EndSample
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from tests.contract import samples
from tests.desk_scene import config_of, fill
from tests.served import VIEWER, Served, serving

NAME = "desk-size"
QUERIES = tuple(f"query-{number:03}" for number in range(100))
PARTITIONS = 100
POINTS = 360
"""Of the plots of one query: six hours of minutes."""
ROUNDS = 10
PAGES = {
    "the overview": ("/", 0.5),
    "one query": (f"/queries/{QUERIES[0]}", 0.25),
    "/api/status": ("/api/status", 0.25),
    "/metrics": ("/metrics", 0.5),
}
"""What is requested, and within how many seconds it is to be there."""


def measure(setting: Setting) -> list[Row]:
    """Raises BenchError."""
    with closing(open_store(f"sqlite:///{setting.directory}/t.db")) as store:
        setting.say(f"{len(QUERIES)} queries of {PARTITIONS} partitions")
        term = fill(store, QUERIES, partitions=PARTITIONS)
        _more(store, term)
        with serving(setting.directory, config=config_of(QUERIES)) as served:
            return [_row(served, what, path, limit) for what, (path, limit) in PAGES.items()]


def _more(store: ControllerStore, term: int) -> None:
    """The ends of all partitions, and the points of one query's plots."""
    now = store.now()
    store.save_ends(
        [
            EndSample(
                cluster="east", topic="orders", partition=each, begin=0, end=1000, newest_timestamp_ms=None,
                leader_epoch=None, topic_id=None, sampled_at=now,
            )
            for each in range(PARTITIONS)
        ]
    )  # fmt: skip
    for minute in range(POINTS, 0, -1):
        point = samples.standby_sample(query=QUERIES[0], sampled_at=now - timedelta(minutes=minute))
        fact = next(each for each in store.readiness() if each.query == QUERIES[0])
        store.keep_readiness(fact, term=term, event=samples.event(), sample=point, replication=samples.replication())


def _row(served: Served, what: str, path: str, limit: float) -> Row:
    took = []
    for _ in range(ROUNDS):
        time.sleep(STATUS_SECONDS * 1.1)
        began = time.monotonic()
        answer = served.call(path, token=VIEWER, headers={"Accept": "*/*" if path.startswith("/api") else "text/html"})
        took.append(time.monotonic() - began)
        if answer.code != 200:
            raise BenchError(f"{path} answers {answer.code}")
    note = f"{len(QUERIES)} queries, {len(QUERIES) * PARTITIONS:,} partitions, SQLite; drawn again each time."
    return Row(
        measurement=NAME, what=f"{what}, {len(answer.body) / 1000:.0f} KB", unit="s", ours=Spread.of(took), limit=limit,
        note=note,
    )  # fmt: skip
