"""The stores under contract: the same tests run against each of them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.memory import MemoryStore
from state.ports import Store

ENGINES = ["memory"]


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = MemoryStore(lambda: datetime.now(UTC))
    yield store
    store.close()
