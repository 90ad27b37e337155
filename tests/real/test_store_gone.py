"""The store goes away while queries run: they read on, and what was tracked outlives the runner that tracked it.

Two controllers live through it as well, still lead and follow, and move nothing because of it, though automatic
mode is on. Then a person takes the query over, the cluster and the leader die, and a move is made.
The store requests a password, which is nowhere to be read afterwards: a store that is away makes everybody talk of it.
"""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import psycopg
import pytest

from lab.world import CLUSTERS, TOPIC
from state.model.cluster_status import Verdict
from state.store.sql.migrate import open_store, upgrade_store
from streaming.spark.tracking.spool import Spool
from tests.postgres import Postgres, running_postgres
from tests.real.pipelines import kept_sums, sums_of
from tests.scene import Stage, one_query
from tests.secrecy import files_below, files_with, process_arguments
from tests.streams import Cluster
from tests.world import running_clusters

pytestmark = pytest.mark.real

READ, WHILE_AWAY, AFTER = 300, 900, 1200
PASSWORD, VARIABLE = "moat-and-drawbridge-51b7", "STORE_OF_THE_TEST"


@pytest.fixture
def server() -> Iterator[Postgres]:
    with running_postgres() as postgres:
        yield postgres


@pytest.fixture
def stage(server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    database = server.new_database().rpartition("/")[2]
    url = server.guard(database, "tideover", PASSWORD)
    upgrade_store(url)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host="127.0.0.1", port=server.port, user="tideover", dbname=database)
    monkeypatch.setenv(VARIABLE, url)
    with running_clusters(tmp_path / "world") as world, closing(open_store(url)) as store:
        settings = one_query(world, f"env:{VARIABLE}", tmp_path, "sums", "sums_by_batch")
        settings |= {"policy": {"automatic": True}, "detection": {"timeout": "5s"}}  # a busy machine is no dead cluster
        clusters = {name: Cluster(world.bootstrap(name)[0]) for name in CLUSTERS}
        with closing(Stage(tmp_path, store, settings, clusters, world=world)) as stage:
            yield stage


def test_positions_spooled_without_a_store_lead_to_the_exact_resume_offset(stage: Stage, server: Postgres) -> None:
    """Only the spool can: the cluster is dead when a runner is back, so nothing can be read from it again."""
    stage.make(TOPIC)
    stage.extend(TOPIC, READ)
    runner = stage.run()
    one, two = stage.control("one"), stage.control("two")
    stage.until("the query reads", lambda: count(stage) == READ)
    stage.until("its position is stored", lambda: offsets_of(stage) == READ)
    stage.until("one controller leads", lambda: one.leads != two.leads and one.is_up and two.is_up)
    server.stop()
    stage.extend(TOPIC, WHILE_AWAY)
    stage.until("the query reads on without a store", lambda: count(stage) == WHILE_AWAY)
    spool = Spool(stage.folder / ".tideover" / "a" / "east.spool")
    stage.until("what was tracked is spooled", lambda: spooled(spool) == WHILE_AWAY)
    listed = stage.type("list").end()
    assert listed.code != 0
    arguments = process_arguments()
    runner.kill()
    server.start()
    back_at = stage.store.now()
    assert offsets_of(stage) == READ, "the store knows only what it was told in time"
    stage.until(
        "one controller leads again", lambda: one.leads != two.leads and "the store is back" in one.log() + two.log()
    )
    stage.until("it sees both clusters well", lambda: well_since(stage, back_at) == set(CLUSTERS))
    assert not stage.store.operations(), "nothing was moved because the store was gone"
    assert not stage.store.open_requests()
    paused = stage.type("pause", "sums", "--reason", "a person decides from here on").end()
    assert paused.code == 0, paused.err
    stage.kill("east")
    stage.until("nothing else keeps it from being moved", lambda: "sums is not moved: not-paused: " in output_of(stage))
    stage.run()
    stage.until("the spool is flushed", lambda: offsets_of(stage) == WHILE_AWAY)
    leader, follower = (one, two) if one.leads else (two, one)
    leader.kill()
    stage.until("the other one leads", lambda: follower.leads)
    stage.extend(TOPIC, AFTER, "west")
    said = stage.failover("sums", "west").end()
    assert said.code == 0, said.err
    assert {row["method"] for row in said.operations["sums"]["plan"]["partitions"]} == {"exact"}
    assert said.operations["sums"]["plan"]["totals"]["replay_records"] == 0
    stage.until("the rest is read on the standby", lambda: count(stage) >= AFTER)
    assert kept_sums(stage.folder / "sums") == sums_of(AFTER)
    shown = stage.type("config", "show").end()
    assert "tideover:*****@" in shown.out, shown.err
    assert f"-c {stage.config} control" in arguments, "the arguments of our processes are among them"
    assert PASSWORD not in "".join((arguments, *(each.out + each.err for each in (listed, said, shown))))
    assert files_with(PASSWORD, files_below(stage.folder)) == [], "no log, spool, sink or checkpoint has it"


def count(stage: Stage) -> int:
    """Records that the sink's sums stand for."""
    return sum(count for count, _ in kept_sums(stage.folder / "sums").values())


def well_since(stage: Stage, at: datetime) -> set[str]:
    """The clusters that were found well after a moment of the store's clock."""
    return {
        each.cluster for each in stage.store.cluster_statuses() if each.verdict is Verdict.UP and each.decided_at > at
    }


def output_of(stage: Stage) -> str:
    """What the history says."""
    return "\n".join(event.text for event in stage.store.history(limit=100))


def offsets_of(stage: Stage) -> int:
    """Records before the newest positions of the store that remember their records."""
    newest = {each.partition: each.offset for each in stage.store.positions("sums") if each.ring}
    return sum(newest.values())


def spooled(spool: Spool) -> int:
    """The same, of the spool."""
    newest = {each.partition: each.offset for each in spool.load().positions if each.ring}
    return sum(newest.values())
