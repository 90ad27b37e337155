"""The product's configuration for a world, with the four example queries, ready to use."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lab.mirror import heartbeats, offset_syncs
from lab.world import CLUSTERS, PRIMARY, STANDBY, TOPIC, World

RUNNER = "a"

_WINDOW_SECONDS = 10
_HEADER = """\
# Written by the lab for its world. Start a runner with:  tideover -c {path} run --name {runner}
"""


_CONF = {
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
}
"""A lab lives for minutes on a few cores: what Java's second compiler makes comes too late and takes a core.

Without that compiler Java reserves 48 MB for code instead of 240. Three queries, one of them into a Delta table, filled
them within two minutes, and Java compiled nothing from there on.
"""


def compose(world: World) -> dict[str, Any]:
    """Return the configuration as plain data."""
    queries = _queries(world)
    # A stuck old run holds its task slots while the new one starts: two slots for every partition of every query.
    slots = 2 * world.options.partitions * len(queries)
    return {
        "store": f"sqlite:///{world.directory / 'tideover.db'}",
        "clusters": {cluster: _cluster(world, cluster) for cluster in CLUSTERS},
        "routes": [
            {"from": source, "to": target, "topics": "identity", "heartbeats": heartbeats(source),
             "offset_syncs": offset_syncs(source)}
            for source, target in ((PRIMARY, STANDBY), (STANDBY, PRIMARY))
        ],
        "spark": {"master": f"local[{slots}]", "conf": _CONF},
        "runners": {RUNNER: {"site": "lab"}},
        "queries": queries,
        "http": {"listen": f"127.0.0.1:{world.http_port}"},
    }  # fmt: skip


def write(world: World) -> None:
    """Write `tideover.yaml` into the world's directory."""
    text = yaml.safe_dump(compose(world), sort_keys=False, width=120)
    header = _HEADER.format(path=world.configuration, runner=RUNNER)
    world.configuration.write_text(header + text, encoding="utf-8")


def declaration(configuration: Path) -> dict[str, Any]:
    """What a configuration says, as plain data."""
    found: dict[str, Any] = yaml.safe_load(configuration.read_text(encoding="utf-8"))
    return found


@contextmanager
def changing(configuration: Path) -> Iterator[dict[str, Any]]:
    """What a configuration says, to be changed in a block and written at its end; a block that fails writes nothing."""
    changed = declaration(configuration)
    yield changed
    configuration.write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")


def _cluster(world: World, cluster: str) -> dict[str, Any]:
    access = world.access_to(cluster)
    return {"bootstrap": list(world.bootstrap(cluster)), **({"security": access.product()} if access else {})}


def _queries(world: World) -> dict[str, Any]:
    windowed = {"window_seconds": _WINDOW_SECONDS}
    return {
        "revenue": _query(world, "revenue", "revenue_per_minute", windowed, sink="keyed"),
        "orders": _query(world, "orders", "orders_per_minute", windowed, sink="keyed"),
        "archive": _query(world, "archive", "archive", {}, sink="batch-id"),
        "latest": _query(
            world, "latest", "latest_orders", {}, sink="keyed", resume="fresh", methods=["timestamp"], buffer="2s"
        ),
    }


def _query(world: World, name: str, pipeline: str, settings: dict[str, Any], **more: Any) -> dict[str, Any]:
    sink = world.directory / "sinks" / (name if pipeline == "archive" else f"{name}.db")
    return {
        "pipeline": f"examples.orders:{pipeline}",
        "settings": {"sink": str(sink), **settings},
        "sources": {"orders": {"topics": [TOPIC]}},
        "clusters": [PRIMARY, STANDBY],
        "runners": [RUNNER],
        "checkpoint": str(world.directory / "checkpoints" / name),
        **more,
    }
