"""Processes that race for a store, or are killed in the middle of a write; started by ``test_store_races``."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta

import sqlalchemy as sa

from state.store.sql.migrate import open_store, upgrade_store
from state.store.write_checks import CONTROLLER
from tests.contract import samples


def lead(url: str, holder: str, seconds: str) -> None:
    """Lead with a tiny time to live, let it lapse often, and print every term that was held."""
    store = open_store(url)
    deadline = time.monotonic() + float(seconds)
    while time.monotonic() < deadline:
        lease = store.lead(CONTROLLER, holder, timedelta(milliseconds=20))
        if lease is not None:
            print(lease.term, flush=True)
            time.sleep(0.03)
        else:
            time.sleep(0.002)
    store.close()


def make(url: str) -> None:
    """Make a store that may not exist yet, and write one event."""
    upgrade_store(url)
    store = open_store(url)
    store.note(samples.event())
    store.close()


def die(url: str) -> None:
    """Hold a query, write everything, and never commit."""
    store = open_store(url)
    term = samples.term_of(store)
    store.adopt(samples.assignment())

    @sa.event.listens_for(store._engines.write, "commit")  # type: ignore[attr-defined] # the SQL store's own
    def wait(_: sa.Connection) -> None:
        print("written", flush=True)
        time.sleep(600)

    store.hold(samples.operation(), from_epoch=1, term=term, step=samples.step(), event=samples.event())


if __name__ == "__main__":
    verbs: dict[str, Callable[..., None]] = {"lead": lead, "make": make, "die": die}
    verbs[sys.argv[1]](*sys.argv[2:])
