"""How much was acknowledged and delivered, shown without a verdict: what shows that there is load."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.errors import NoSink
from lab.verify import Verifier

QUERIES = {
    "revenue": "examples.orders:revenue_per_minute",
    "latest": "examples.orders:latest_orders",
    "archive": "examples.orders:archive",
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
    configuration.write_text(json.dumps({"clusters": {"east": {}, "west": {}}, "queries": declared}), encoding="utf-8")
    return Verifier(cast(Any, SimpleNamespace(acked=folder / "acked")), configuration, lambda _: None)


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def fill(folder: Path, *, archived: int = 2) -> None:
    """Each sink as its query leaves it."""
    change(folder / "revenue", "CREATE TABLE windows (orders)", "INSERT INTO windows VALUES (20), (22)")
    change(folder / "latest", "CREATE TABLE orders (deliveries)", "INSERT INTO orders VALUES (1), (2)")
    log = folder / "archive" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(archived):
        pq.write_table(pa.table({"id": [batch, 9]}), folder / f"{batch}.parquet")
        entry = json.dumps({"path": f"file://{folder}/{batch}.parquet"})
        (log / f"{batch}").write_text(f"v1\n{entry}\n", encoding="utf-8")
    pq.write_table(pa.table({"id": [1]}), folder / "archive" / "of-a-batch-that-failed.parquet")


def test_acknowledged_lines_count_and_unknown_or_half_lines_do_not(tmp_path: Path) -> None:
    verifier = world(tmp_path)
    fill(tmp_path)
    (tmp_path / "acked" / "orders.1.east.ids").write_text("1 0 7 99\n2 0 -1 99\n3 0 8 99\n", encoding="ascii")
    (tmp_path / "acked" / "orders.2.west.ids").write_text("4 0 9 99\n5 0 1", encoding="ascii")
    (tmp_path / "acked" / "orders.late.1.east.ids").write_text("6 0 0 99\n", encoding="ascii")
    assert {name: each["acked"] for name, each in verifier.counts().items()} == dict.fromkeys(QUERIES, 3)


def test_each_kind_of_sink_is_counted_with_its_repeats(tmp_path: Path) -> None:
    verifier = world(tmp_path)
    assert {each["delivered"] for each in verifier.counts().values()} == {0}, "nothing was sent, so nothing is there"
    fill(tmp_path)
    assert {name: each["delivered"] for name, each in verifier.counts().items()} == {
        "revenue": 42, "latest": 3, "archive": 4,
    }  # fmt: skip


@pytest.mark.parametrize("missing", QUERIES)
def test_a_sink_that_was_never_written_though_records_were_sent_is_an_error(tmp_path: Path, missing: str) -> None:
    verifier = world(tmp_path)
    fill(tmp_path)
    shutil.move(tmp_path / missing, tmp_path / "elsewhere")
    (tmp_path / "acked" / "orders.1.east.ids").write_text("1 0 7 99\n", encoding="ascii")
    with pytest.raises(NoSink, match=f"{tmp_path / missing}"):
        verifier.counts()
