"""Credentials the other way round, for everywhere else certificates are left for passwords.

Records are tracked and read by a password, over MirrorMaker 2. Resume offsets, heartbeats, offset syncs and a sink are
read from a standby that needs certificates. No command is typed.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab import topics
from lab.world import STANDBY, World
from state.store.sql.migrate import open_store
from tests.guarded import documented, in_capitals
from tests.long.test_watch_faults import store_of
from tests.long.unattended import unattended

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

COPIES, RATE = "copies", 200
REPLICATOR = "replicator:east->west"


def test_a_query_leaves_a_password_cluster_for_a_certificate_cluster(tmp_path: Path) -> None:
    with (
        unattended(tmp_path, secured="scram,mtls", rate=RATE, prepare=add_sink_and_syncs) as world,
        closing(open_store(store_of(world.on))) as store,
    ):
        (heard,) = (each for each in store.probe_reports("east") if each.viewpoint == REPLICATOR)
        assert (heard.fault, heard.last_ok_at is None) == (None, False), "heartbeats are read on the standby"
        world.lab("kill", "east")
        world.until("every query has left", world.has_moved)
        world.assert_moved_once()
        methods = {
            each["query"]: {place["method"] for place in each["plan"]["partitions"]} for each in world.attempts()
        }
        assert methods.pop("latest") == {"synced"}
        assert methods == {query: {"exact"} for query in ("revenue", "orders", "archive", COPIES)}
        before = copied(world.on.world)
        world.assert_nothing_lost()
        world.until("the sink has what was written to the standby", lambda: copied(world.on.world) >= before + 4 * RATE)


def add_sink_and_syncs(world: World, declared: dict[str, Any]) -> None:
    """One query more, that writes to the standby; and one that goes by offset syncs alone."""
    topics.create(world.bootstrap(STANDBY), COPIES, 1, 1)
    access = world.access_to(STANDBY)
    assert access is not None
    access.permit(world.bootstrap(STANDBY), {COPIES: [in_capitals(each) for each in documented("runner", "topic of")]})
    queries = declared["queries"]
    queries["latest"]["methods"] = ["synced"]
    kept = {key: queries["archive"][key] for key in ("sources", "clusters", "runners")}
    queries[COPIES] = kept | {
        "pipeline": "tests.real.pipelines:copies",
        "checkpoint": str(world.directory / "checkpoints" / COPIES),
        "output": {"cluster": STANDBY, "topic": COPIES},
    }


def copied(directory: Path) -> int:
    """Records in the topic that the query writes, in a world."""
    return sum(topics.ends(World.load(directory).bootstrap(STANDBY), COPIES).values())
