"""One version of the state is chosen out of everything that lies there: nothing missing, nothing newer."""

import json

import pytest

from streaming.spark.checkpoint.operators import Operator, deduplicates_ahead, parse_operator
from streaming.spark.checkpoint.state_files import next_state_ids, select_state, shared_files
from streaming.spark.errors import HalfWritten, MalformedEntry

STORE = frozenset({"0/0"})
Ids = dict[str, list[list[str]]]


def chosen(names: str, version: int, ids: Ids | None = None) -> str:
    """Names in one store's folder, out of those given."""
    paths = select_state([f"0/0/{name}" for name in names.split()], version, ids or {}, STORE)
    return " ".join(sorted((path.removeprefix("0/0/") for path in paths), key=names.split().index))


@pytest.mark.parametrize(
    ("there", "version", "wanted"),
    [
        ("1.delta 2.delta 3.delta 4.delta", 3, "1.delta 2.delta 3.delta"),
        ("1.delta 2.delta 2.snapshot 3.delta 4.delta", 3, "2.snapshot 3.delta"),
        ("2.snapshot 3.delta 3.snapshot 4.snapshot", 3, "3.snapshot"),
        ("7.snapshot 8.delta 9.delta 10.delta 10.snapshot 11.delta", 11, "10.snapshot 11.delta"),
        ("1.zip 2.zip 3.zip", 2, "2.zip"),
        ("3.zip 4.changelog 5.changelog 6.changelog 6.zip", 5, "3.zip 4.changelog 5.changelog"),
        (".3.delta.0a1b.tmp 1.delta 2.delta 3.delta .1.delta.crc", 2, "1.delta 2.delta"),
        ("2.snapshot 4.snapshot 3.delta 5.delta", 5, "4.snapshot 5.delta"),
    ],
)
def test_the_newest_full_version_and_what_follows_it_is_chosen(there: str, version: int, wanted: str) -> None:
    assert chosen(there, version) == wanted


@pytest.mark.parametrize("there", ["1.delta 3.delta", "1.delta 2.delta", "4.snapshot", "2.snapshot", "5.zip"])
def test_a_version_that_cannot_be_put_together_is_refused(there: str) -> None:
    with pytest.raises(HalfWritten, match="version 3"):
        chosen(there, 3)


def test_a_store_without_files_is_refused() -> None:
    with pytest.raises(HalfWritten, match="0/1"):
        select_state(["0/0/1.delta"], 1, {}, frozenset({"0/0", "0/1"}))


def test_metadata_and_schemas_are_copied_whole_and_shared_tables_left() -> None:
    paths = ["0/_metadata/metadata", "0/0/_metadata/schema", "0/_metadata/v2/7", "0/0/SSTs/1-a.sst", "0/0/1.zip"]
    assert select_state(paths, 1, {}, STORE) == frozenset(paths) - {"0/0/SSTs/1-a.sst"}


def test_the_commit_log_distinguishes_an_aborted_attempt() -> None:
    there = (
        "1_a.changelog 1_a.changelog.crc 2_b.changelog 2_x.changelog 2_b.changelog.crc 2_x.changelog.crc 3_c.changelog"
    )
    assert chosen(there, 2, {"0": [["b"]]}) == "1_a.changelog 1_a.changelog.crc 2_b.changelog 2_b.changelog.crc"


def test_a_full_version_of_which_two_attempts_exist_is_not_trusted_alone() -> None:
    there = "1_a.zip 2_b.zip 2_x.zip 2_b.changelog 2_x.changelog 3_c.changelog"
    assert chosen(there, 3, {"0": [["c"]]}) == there
    assert chosen(there.replace("2_x.zip ", "").replace("2_x.changelog ", ""), 3, {"0": [["c"]]}) == (
        "2_b.zip 2_b.changelog 3_c.changelog"
    )


def test_a_join_keeps_its_stores_in_folders_of_their_own() -> None:
    operator = Operator(id=2, name="symmetricHashJoin", stores={"left": 2, "right": 1, "default": 1})
    assert operator.directories == {"2/0/left", "2/1/left", "2/0/right", "2/0"}


def test_the_ids_of_a_batch_without_commit_come_from_its_files() -> None:
    paths = [
        f"0/0/{store}/{name}.changelog" for store, name in (("l", "1_a"), ("r", "1_b"), ("l", "2_c"), ("r", "2_d"))
    ]
    assert next_state_ids(paths, 2, {"0": [["a", "b"]]}) == {"0": [["c", "d"]]}
    with pytest.raises(HalfWritten, match="2 attempts"):
        next_state_ids([*paths, "0/0/l/2_e.changelog"], 2, {"0": [["a", "b"]]})
    with pytest.raises(HalfWritten, match="0 attempts"):
        next_state_ids(paths[:3], 2, {"0": [["a", "b"]]})


def test_an_archive_names_the_tables_and_logs_that_it_shares() -> None:
    value = {
        "sstFiles": [{"localFileName": "8.sst", "dfsSstFileName": "8-u.sst"}],
        "logFiles": [{"dfsLogFileName": "9-u.log"}],
    }
    assert shared_files(b"v1\n" + json.dumps(value).encode(), "1.zip") == {"SSTs/8-u.sst", "logs/9-u.log"}
    assert shared_files(b'v1\n{"sstFiles":[]}', "1.zip") == frozenset()
    with pytest.raises(MalformedEntry):
        shared_files(b"v1\n[]", "1.zip")


@pytest.mark.parametrize("content", [b"", b"v1\n{}", b"v3\n" + b"{}", b'v1\n{"operatorInfo":{}}'])
def test_foreign_operator_metadata_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedEntry):
        parse_operator(content, "metadata")


@pytest.mark.parametrize(
    ("names", "sources", "ahead"),
    [
        ("stateStoreSave dedupeWithinWatermark", 1, True),
        ("dedupe stateStoreSave", 1, False),
        ("stateStoreSave", 1, False),
        ("dedupe", 1, True),
        ("", 1, False),
        ("symmetricHashJoin dedupe dedupe", 2, True),
        ("stateStoreSave symmetricHashJoin dedupe", 2, False),
        ("stateStoreSave dedupe", 2, False),
        ("dedupe transformWithStateExec", 1, False),
    ],
)
def test_deduplication_counts_only_ahead_of_everything_else(names: str, sources: int, ahead: bool) -> None:
    operators = [Operator(id=index, name=name, stores={"default": 2}) for index, name in enumerate(names.split())]
    assert deduplicates_ahead(operators, sources) is ahead
