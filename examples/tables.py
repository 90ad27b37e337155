"""SQLite tables that a foreachBatch sink writes in one transaction per batch, and that a repeated batch leaves alone.

Spark gives a sink the same batch again when it failed between the sink's commit and its own. An old run that was
thought dead may still write the batch in its hands. Both are known by the stamp, (epoch, batch id), which only grows.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

_WAIT_SECONDS = 10.0

_WINDOWS = """
CREATE TABLE IF NOT EXISTS windows (
    start_ms INTEGER, topic TEXT, "partition" INTEGER, orders INTEGER NOT NULL, amount INTEGER NOT NULL,
    hash_high INTEGER NOT NULL, hash_low INTEGER NOT NULL, epoch INTEGER NOT NULL, batch_id INTEGER NOT NULL,
    PRIMARY KEY (start_ms, topic, "partition")
)"""
_REPLACE_WINDOW = """
INSERT INTO windows (start_ms, topic, "partition", orders, amount, hash_high, hash_low, epoch, batch_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (start_ms, topic, "partition") DO UPDATE SET
    orders = excluded.orders, amount = excluded.amount, hash_high = excluded.hash_high, hash_low = excluded.hash_low,
    epoch = excluded.epoch, batch_id = excluded.batch_id
WHERE (excluded.epoch, excluded.batch_id) >= (windows.epoch, windows.batch_id)"""

_ORDERS = """
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY, customer TEXT NOT NULL, amount INTEGER NOT NULL, deliveries INTEGER NOT NULL
)"""
_BATCHES = "CREATE TABLE IF NOT EXISTS batches (epoch INTEGER, batch_id INTEGER, PRIMARY KEY (epoch, batch_id))"
_NEW_BATCH = "INSERT OR IGNORE INTO batches (epoch, batch_id) VALUES (?, ?)"
_COUNT_ORDER = """
INSERT INTO orders (id, customer, amount, deliveries) VALUES (?, ?, ?, 1)
ON CONFLICT (id) DO UPDATE SET
    customer = excluded.customer, amount = excluded.amount, deliveries = orders.deliveries + 1"""


@dataclass(frozen=True, order=True)
class Stamp:
    """Where a batch comes from."""

    epoch: int
    batch_id: int


def replace_windows(path: Path, rows: Iterable[Sequence[object]], stamp: Stamp) -> None:
    """Replace the rows of windows, but for those that a later batch has written.

    A row is (start in ms, topic, partition, orders, amount, sum of high hashes, sum of low hashes).
    """
    with _transaction(path, _WINDOWS) as database:
        database.executemany(_REPLACE_WINDOW, [(*row, stamp.epoch, stamp.batch_id) for row in rows])


def count_deliveries(path: Path, rows: Iterable[tuple[int, str, int]], stamp: Stamp) -> None:
    """Count one more delivery of each order, (id, customer, amount), unless this very batch was counted already."""
    with _transaction(path, _ORDERS, _BATCHES) as database:
        if database.execute(_NEW_BATCH, (stamp.epoch, stamp.batch_id)).rowcount:
            database.executemany(_COUNT_ORDER, rows)


@contextmanager
def _transaction(path: Path, *tables: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")  # readers are not held up
        database.execute("BEGIN IMMEDIATE")
        for table in tables:
            database.execute(table)
        yield database
        database.execute("COMMIT")  # an error before this rolls everything back when the connection closes
