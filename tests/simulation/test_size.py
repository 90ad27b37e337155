"""A hundred queries cost a hundred times what one costs: no statement is sent more often because there are more."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from orchestrator.new_requests import RequestSpec, submit
from state.model.entities import OperationKind
from state.store.sql.database import Part
from tests.simulation.control import scheduler, see_to
from tests.simulation.world import World, settings

FEW = 20


@dataclass
class Cost:
    """Of all moves together."""

    reads: int = 0
    writes: int = 0
    rows: int = 0
    """Read as nouns."""

    def each(self, queries: int) -> tuple[float, float, float]:
        """Reads, writes and rows of one move."""
        return self.reads / queries, self.writes / queries, self.rows / queries


@contextmanager
def counted(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cost]:
    """What is read from the store, by anybody."""
    cost, engines, plain = Cost(), world.store._engines, Part._rows  # type: ignore[attr-defined]

    def read(*_: object) -> None:
        cost.reads += 1

    def written(*_: object) -> None:
        cost.writes += 1

    def rows(self: Part, *arguments: object) -> list[object]:
        found: list[object] = plain(self, *arguments)  # type: ignore[arg-type]
        cost.rows += len(found)
        return found

    sa.event.listen(engines.read, "before_cursor_execute", read)
    sa.event.listen(engines.write, "before_cursor_execute", written)
    with monkeypatch.context() as patch:
        patch.setattr(Part, "_rows", rows)
        yield cost
    sa.event.remove(engines.read, "before_cursor_execute", read)
    sa.event.remove(engines.write, "before_cursor_execute", written)


def moved(queries: int, waves: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> tuple[float, float, float]:
    """``failover --all`` of so many, side by side; what was read from the store for each of them."""
    names = tuple(f"q{number:03}" for number in range(queries))
    world = World(settings(queries=names), partitions=1)
    with counted(world, monkeypatch) as cost:
        spec = RequestSpec(
            kind=OperationKind.FAILOVER, targets=dict.fromkeys(names, "west"), expect_active={}, actor="ann", reason="",
            consents=(), waves=waves,
        )  # fmt: skip
        submit(world.store, spec)
        held = scheduler(world)
        for _ in range(20):
            if not world.store.open_requests() and not world.store.operations(only_open=True, limit=1):
                break
            see_to(world, held, 0.5)
    assert {each.outcome for each in world.store.operations(limit=queries)} == {"done"}
    assert {each.cluster for each in world.store.assignments()} == {"west"}
    print(f"{queries} queries, waves {waves}: {cost}, each {cost.each(queries)}")
    return cost.each(queries)


@pytest.mark.parametrize(("most", "share"), [(100, ()), (60, (0.05, 0.25))], ids=["at once", "in waves"])
def test_a_move_costs_no_more_beside_many_others(
    most: int, share: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (moved(each, tuple(round(part * each) for part in share), monkeypatch) for each in (FEW, most))
    reads, writes, rows = many
    assert reads <= 1.1 * few[0]
    assert writes <= 1.1 * few[1]
    assert rows <= 1.1 * few[2]
    assert reads <= (70 if share else 45)
    assert writes <= 65
    assert rows <= 120
