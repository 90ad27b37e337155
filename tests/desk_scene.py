"""A store as controllers and runners leave it, of any size, for the page of the operator's desk."""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from state.model.cluster_status import Verdict
from state.model.maintenance import PartitionCopy
from state.store.controller_store import ControllerStore
from tests.contract import samples

SECOND = timedelta(seconds=1)
ONE_QUERY = """
  {name}:
    pipeline: examples.orders:revenue
    sources: {{orders: {{topics: [orders]}}}}
    clusters: [east, west]
    runners: [a]
    checkpoint: /cp/{name}
"""
TOP = """
store: sqlite:///t.db
clusters:
  east: {bootstrap: [localhost:1]}
  west: {bootstrap: [localhost:2]}
routes: [{from: east, to: west, heartbeats: east.heartbeats}]
runners: {a: {}}
queries:
"""
GATES = (
    {"name": "standby-reachable", "ok": True, "measured": "12 ms", "limit": "2 s", "text": "it answers"},
    {"name": "exposure", "ok": True, "measured": "0.4 s", "limit": "60 s", "text": "within the limit"},
)
REFUSING = {"name": "replication-lag", "ok": False, "measured": "90.0 s", "limit": "60 s", "text": "west is behind"}


def config_of(queries: Sequence[str]) -> str:
    """A configuration with these queries, from east to west."""
    return TOP + "".join(ONE_QUERY.format(name=name) for name in queries)


REASONS = {Verdict.UP: "it answers", Verdict.DOWN: "6 probes in a row failed, and nobody else sees it"}
HOLDER = "host/boot:1:2:one"


def judge(store: ControllerStore, term: int, **verdicts: Verdict) -> None:
    """Give verdicts on clusters, now."""
    for cluster, verdict in verdicts.items():
        believed = samples.status(
            cluster=cluster, verdict=verdict, reasons=(REASONS.get(verdict, "it was looked at"),), since=store.now(),
            decided_at=store.now(), term=term,
        )  # fmt: skip
        store.record_status(believed, term=term, event=samples.event(kind="verdict", text=f"{cluster} is {verdict}"))


@contextlib.contextmanager
def judging(store: ControllerStore, term: int) -> Iterator[dict[str, Verdict]]:
    """A controller that renews the verdicts that stand in what it yields, as one does each second."""
    verdicts, over = {"east": Verdict.UP, "west": Verdict.UP}, threading.Event()

    def work() -> None:
        while True:
            judge(store, term, **verdicts)
            if over.wait(0.3):
                return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield verdicts
    finally:
        over.set()
        thread.join()


def sample(
    store: ControllerStore, term: int, query: str, *, partitions: int = 4, age_ms: int = 400, refused: bool = False,
    point: Mapping[str, object] | None = MappingProxyType({}),
) -> None:  # fmt: skip
    """Write what a readiness check of a query found, now; ``point`` changes its numbers, None keeps none."""
    now = store.now()
    ms = int(now.timestamp() * 1000)
    copies = tuple(
        PartitionCopy("orders", each, "orders", ms, ms - age_ms * each // partitions, age_ms * each // partitions,
                      each, ms, "")
        for each in range(1, partitions + 1)
    )  # fmt: skip
    fact = samples.readiness(
        query=query, ready=not refused, gates=(*GATES, REFUSING) if refused else GATES, since=now, sampled_at=now
    )  # fmt: skip
    replication = samples.replication(sampled_at=now, copies=copies)
    said = samples.event(kind="readiness", query=query, operation=None, text=f"{query} was checked")
    numbers = {"exposure_seconds": age_ms / 1000, "copy_age_seconds": age_ms / 1000, "sampled_at": now}
    kept = None if point is None else samples.standby_sample(query=query, ready=not refused, **numbers | dict(point))
    store.keep_readiness(fact, term=term, event=said, replication=replication, sample=kept)


def place(store: ControllerStore, query: str, *, partitions: int = 4, **fact: object) -> None:
    """A query that runs on east, as its runner reports it."""
    now = store.now()
    store.adopt(samples.assignment(query=query, checkpoint=f"/cp/{query}", changed_at=now))
    offsets = {"orders": {"orders": {str(each): 100 for each in range(partitions)}}}
    reported = {"query": query, "offsets": offsets, "progressed_at": now, "reported_at": now, "started_at": now, **fact}
    assert store.report_query(samples.fact(**reported))


def fill(store: ControllerStore, queries: Sequence[str], *, partitions: int = 4) -> int:
    """All is well: both clusters are up, the queries run on east, and each is ready. Returns the term of the leader."""
    lease = store.lead("controller", HOLDER, timedelta(hours=1))
    assert lease is not None
    store.save_probe_reports([samples.probe_report(instance=HOLDER, seen_at=store.now())])
    store.register(samples.runner(seen_at=store.now()))
    judge(store, lease.term, east=Verdict.UP, west=Verdict.UP)
    for query in queries:
        place(store, query, partitions=partitions)
        sample(store, lease.term, query, partitions=partitions)
    return lease.term
