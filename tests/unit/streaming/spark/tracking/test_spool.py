"""What the store could not take survives on disk, whole or not at all."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.model.entities import EndSample, Fingerprint, Position
from state.model.fingerprints import Fingerprints
from streaming.spark.runner.service import STATE, spool_folder
from streaming.spark.tracking.spool import Spool, Spooled

NOW = datetime(2026, 1, 1, 12, 30, 0, 250, tzinfo=UTC)
POSITION = Position(
    query="revenue",
    epoch=1,
    cluster="east",
    source="orders",
    topic="orders",
    partition=0,
    batch=7,
    offset=100,
    timestamp_ms=1_000,
    leader_epoch=2,
    topic_id="abc",
    ring=(Fingerprint(98, 999, b"\x00\xff" * 8), Fingerprint(99, 1_000, bytes(16))),
    dense=True,
    tracked_at=NOW,
)
SAMPLE = EndSample(
    cluster="east",
    topic="orders",
    partition=0,
    begin=0,
    end=120,
    newest_timestamp_ms=None,
    leader_epoch=2,
    topic_id="abc",
    sampled_at=NOW,
)
KEPT = Spooled().merged([POSITION], [SAMPLE])


def test_which_records_were_not_committed_is_kept(tmp_path: Path) -> None:
    kept = replace(POSITION, ring=Fingerprints.of(POSITION.ring, [99]))
    Spool(tmp_path / "east.spool").save(Spooled((kept,)))
    (found,) = Spool(tmp_path / "east.spool").load().positions
    assert Fingerprints.of(found.ring).uncommitted == {99}


def test_another_process_reads_what_was_kept(tmp_path: Path) -> None:
    Spool(tmp_path / "deep" / "east.spool").save(KEPT)
    assert Spool(tmp_path / "deep" / "east.spool").load() == KEPT


def test_a_kill_while_writing_leaves_the_old_content(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "east.spool")
    spool.save(KEPT)
    whole = (tmp_path / "east.spool").read_text()
    (tmp_path / "east.spool.new").write_text(whole[: len(whole) // 2])
    assert spool.load() == KEPT


@pytest.mark.parametrize("keep", [0, 10, 40, -1])
def test_a_file_that_a_disk_cut_short_is_dropped(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "east.spool"
    Spool(path).save(KEPT)
    path.write_text(path.read_text()[:keep])
    assert Spool(path).load().is_empty


def test_nothing_to_keep_leaves_no_file(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "east.spool")
    spool.save(KEPT)
    spool.save(Spooled())
    assert list(tmp_path.iterdir()) == []
    assert spool.load().is_empty


@pytest.mark.parametrize("shape", [None, 2, 4])
def test_a_file_of_another_version_is_dropped(tmp_path: Path, shape: int | None) -> None:
    path = tmp_path / "east.spool"
    content = {"positions": [["/c", {"query": "revenue", "ring": []}]], "ends": []}
    text = json.dumps(content if shape is None else content | {"shape": shape})
    path.write_text(f"{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}\n{text}")
    assert Spool(path).load().is_empty


def test_a_long_outage_keeps_the_newest_two_batches_of_each_epoch() -> None:
    kept = Spooled()
    for number in range(50):
        kept = kept.merged([replace(POSITION, batch=number)], [replace(SAMPLE, end=number)])
    kept = kept.merged([replace(POSITION, epoch=3)], [])
    assert sorted((each.epoch, each.batch) for each in kept.positions) == [(1, 48), (1, 49), (3, 7)]
    assert [each.end for each in kept.ends] == [49]


def test_newer_knowledge_replaces_the_spooled_position() -> None:
    kept = KEPT.merged([replace(POSITION, dense=None)], [])
    assert [each.dense for each in kept.positions] == [None]


def test_the_spool_is_beside_the_configuration_unless_set_otherwise() -> None:
    assert spool_folder(Path("/etc/tideover"), {}) == Path("/etc/tideover/.tideover")
    assert spool_folder(Path("/etc/tideover"), {STATE: ""}) == Path("/etc/tideover/.tideover")
    assert spool_folder(Path("/etc/tideover"), {STATE: "/var/lib/tideover"}) == Path("/var/lib/tideover")
