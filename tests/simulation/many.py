"""A world with many queries, and a server in front of it, for what acts on all of them at once."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from streaming.cluster_log import Logs
from tests.served import Served, serving
from tests.simulation.conftest import CONFIG
from tests.simulation.world import QUERY, World


def config_of(names: Sequence[str]) -> str:
    """The configuration of the simulated world with these queries, and with the two clusters that it has."""
    head, _, query = CONFIG.replace("  south: {bootstrap: [localhost:3]}\n", "").partition(f"  {QUERY}:")
    return head + "".join(f"  {name}:" + query.replace(f"/cp/{QUERY}", f"/cp/{name}") for name in names)


@contextlib.contextmanager
def serving_many(world: World, folder: Path, names: Sequence[str], more: str = "") -> Iterator[Served]:
    """These queries run on east, and the desk shows them."""

    @contextlib.contextmanager
    def logs(*_: object) -> Iterator[Logs]:
        yield world.clusters.__getitem__

    for name in names:
        if name != QUERY:
            world.add(name)
    with serving(folder, config=config_of(names) + more, open_logs=logs) as served:
        world.settings = served.server.settings
        yield served
