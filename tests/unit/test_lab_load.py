"""How much was acknowledged and delivered, told without a verdict: what shows that there is load."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from lab.verify import Verifier

QUERIES = {
    "revenue": "examples.orders:revenue_per_minute",
    "latest": "examples.orders:latest_orders",
    "archive": "examples.orders:archive",
    "other": "elsewhere:unknown",
}


def world(folder: Path) -> Verifier:
    (folder / "acked").mkdir()
    declared = {
        name: {
            "pipeline": pipeline, "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"],
            "settings": {"sink": str(folder / name)},
        }
        for name, pipeline in QUERIES.items()
    }  # fmt: skip
    configuration = folder / "tideover.yaml"
    configuration.write_text(json.dumps({"queries": declared}), encoding="utf-8")
    return Verifier(cast(Any, SimpleNamespace(acked=folder / "acked")), configuration, lambda _: None)


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_what_was_acknowledged_counts_and_neither_an_unknown_fate_nor_half_a_line(tmp_path: Path) -> None:
    verifier = world(tmp_path)
    (tmp_path / "acked" / "orders.1.ids").write_text("1 0 7 99\n2 0 -1 99\n3 0 8 99\n", encoding="ascii")
    (tmp_path / "acked" / "orders.2.ids").write_text("4 0 9 99\n5 0 1", encoding="ascii")
    (tmp_path / "acked" / "orders.late.1.ids").write_text("6 0 0 99\n", encoding="ascii")
    assert {name: each["acked"] for name, each in verifier.counts().items()} == dict.fromkeys(
        ("revenue", "latest", "archive"), 3
    )


def test_what_each_kind_of_sink_got_counts_with_its_repeats(tmp_path: Path) -> None:
    verifier = world(tmp_path)
    assert {each["delivered"] for each in verifier.counts().values()} == {0}, "nothing is there yet"
    change(tmp_path / "revenue", "CREATE TABLE windows (orders)", "INSERT INTO windows VALUES (20), (22)")
    change(tmp_path / "latest", "CREATE TABLE orders (deliveries)", "INSERT INTO orders VALUES (1), (2)")
    log = tmp_path / "archive" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(2):
        pq.write_table(pa.table({"id": [batch, 9]}), tmp_path / f"{batch}.parquet")
        entry = json.dumps({"path": f"file://{tmp_path}/{batch}.parquet"})
        (log / f"{batch}").write_text(f"v1\n{entry}\n", encoding="utf-8")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "archive" / "of-a-batch-that-failed.parquet")
    assert {name: each["delivered"] for name, each in verifier.counts().items()} == {
        "revenue": 42, "latest": 3, "archive": 4,
    }  # fmt: skip
