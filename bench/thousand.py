"""A thousand queries of a hundred partitions leave a dead cluster at once, in the simulation.

No machine that runs this has room for 100,000 partitions on real brokers and a thousand real queries, so clusters,
Spark and the clock are those of ``tests.simulation``. The requests, the judgement, the look-up by time and the writes
are the product's own, in one process. The figures are the processor time and the statements of one move among 20
queries, 100 and 1,000. What does not rise with the number of queries has no wall there. The simulated parts are in the
processor time too, so a real controller's is in ``size``, on real brokers and PostgreSQL.
"""

import time
from collections import Counter
from dataclasses import dataclass

import sqlalchemy as sa

from bench.errors import BenchError
from bench.report import Row
from bench.samples import Spread
from bench.setting import Setting
from orchestrator.new_requests import RequestSpec, submit
from state.model.entities import OperationKind
from tests.simulation.control import scheduler, see_to
from tests.simulation.world import World, settings

NAME = "thousand"
SIZES = (20, 100, 1000)
PARTITIONS = 100
_LOOKS = 200
_NOTE = f"failover --all, {PARTITIONS} partitions a query, everything around the controller simulated."


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Of one move, among so many."""

    queries: int
    processor: float
    """Seconds."""
    reads: float
    writes: float


def measure(setting: Setting) -> list[Row]:
    """Each size once. Raises BenchError where a query is not moved."""
    rows = []
    for size in SIZES:
        moved = _move(size)
        setting.say(
            f"{size} queries: {moved.processor * 1000:.0f} ms of the processor, {moved.reads:.0f} reads and"
            f" {moved.writes:.0f} writes a move"
        )
        for what, unit, value in (
            ("processor time of a move", "ms", moved.processor * 1000),
            ("statements that read, of a move", "", moved.reads),
            ("statements that write, of a move", "", moved.writes),
        ):
            rows.append(
                Row(measurement=NAME, what=f"{size:,} queries: {what}", unit=unit, ours=Spread.of((value,)), note=_NOTE)
            )
    return rows


def _move(size: int) -> Moved:
    names = tuple(f"q{number:04}" for number in range(size))
    world = World(settings(queries=names), partitions=PARTITIONS)
    requested, engines = Counter[str](), world.store.engines  # type: ignore[attr-defined] # a memory store
    sa.event.listen(engines.read, "before_cursor_execute", lambda *_: requested.update(reads=1))
    sa.event.listen(engines.write, "before_cursor_execute", lambda *_: requested.update(writes=1))
    began = time.process_time()
    submit(
        world.store,
        RequestSpec(
            kind=OperationKind.FAILOVER, targets=dict.fromkeys(names, "west"), expect_active={}, actor="bench",
            reason="size", consents=(),
        ),
    )  # fmt: skip
    held = scheduler(world)
    for _ in range(_LOOKS):
        if not world.store.open_requests() and not world.store.operations(only_open=True, limit=1):
            break
        see_to(world, held, 0.5)
    spent = time.process_time() - began
    outcomes = Counter(str(each.outcome) for each in world.store.operations(limit=size))
    if outcomes != {"done": size} or {each.cluster for each in world.store.assignments()} != {"west"}:
        raise BenchError(f"not all of {size} queries were moved: {dict(outcomes)}")
    return Moved(
        queries=size, processor=spent / size, reads=requested["reads"] / size, writes=requested["writes"] / size
    )
