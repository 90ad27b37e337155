"""Processes that race for a store, or are killed in the middle of a write; started by ``test_store_races``."""

import sys
import time
from datetime import timedelta

import sqlalchemy as sa

from state.guards import CONTROLLER
from state.sql.migrate import open_store
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


def open_it(url: str) -> None:
    """Open a store that may not exist yet, and write one event."""
    store = open_store(url)
    store.note(samples.event())
    store.close()


def die(url: str) -> None:
    """Hold a query, write everything, and never commit."""
    store = open_store(url)
    term = samples.term_of(store)
    store.adopt(samples.assignment())

    @sa.event.listens_for(store._engines.write, "commit")
    def wait(_: sa.Connection) -> None:
        print("written", flush=True)
        time.sleep(600)

    store.hold(samples.operation(), from_epoch=1, term=term, step=samples.step(), event=samples.event())


if __name__ == "__main__":
    {"lead": lead, "open": open_it, "die": die}[sys.argv[1]](*sys.argv[2:])
