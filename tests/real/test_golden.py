"""The checkpoints that Spark's own suites restart, of Spark 2.1 to 4.0, taken from its published tests jar.

Every log entry comes back byte for byte, and every checkpoint is carried or refused by name. None of their sources is
Kafka's, so nothing in the offsets is exchanged; what a moved source becomes is shown elsewhere.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from streaming.spark.checkpoint.log_text import (
    format_commit_entry,
    format_offset_entry,
    format_query_id,
    parse_commit_entry,
    parse_offset_entry,
    parse_query_id,
)
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.errors import HalfWritten
from tests.real.golden import FILES, carry

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.jars("golden")]

SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))

CARRIED = {
    # folder: newest committed batch, stateful operators, sources that are not Kafka's
    "checkpoint-version-2.3.1-flatMapGroupsWithState-state-format-1": (1, ["unknown"], 1),
    "checkpoint-version-2.3.1-for-multi-watermark-policy": (1, [], 2),
    "checkpoint-version-2.3.1-streaming-aggregate-state-format-1": (1, ["unknown"], 1),
    "checkpoint-version-2.3.1-without-commit-log-metadata": (1, ["unknown"], 1),
    "checkpoint-version-2.4.0-streaming-join": (0, ["unknown"], 2),
    "checkpoint-version-2.4.5-for-compatibility-test-common-functions": (0, ["unknown"], 1),
    "checkpoint-version-2.4.5-for-compatibility-test-deduplicate": (0, ["unknown"], 1),
    "checkpoint-version-2.4.5-for-compatibility-test-statistical-functions": (0, ["unknown"], 1),
    "checkpoint-version-2.4.5-for-compatibility-test-sum-decimal": (0, ["unknown"], 1),
    "checkpoint-version-3.0.0-streaming-statestore-codec": (0, ["unknown"], 1),
    "checkpoint-version-3.1.0-flatmapgroupswithstate-repartition": (0, ["unknown"], 1),
    "checkpoint-version-3.2.0-deduplication-with-repartition": (1, ["unknown"], 1),
    "checkpoint-version-3.2.0-flatmapgroupswithstate1-repartition": (0, ["unknown"], 1),
    "checkpoint-version-3.2.0-flatmapgroupswithstate2-repartition": (0, ["unknown"], 1),
    "checkpoint-version-3.2.0-session-window-with-repartition": (1, ["unknown"], 1),
    "checkpoint-version-3.2.0-streaming-aggregate-with-repartition": (1, ["unknown"], 1),
    "checkpoint-version-3.3.0-streaming-deduplication": (1, ["unknown"], 1),
    "escaped-path-2.4.0/chk%252520%252525@%252523chk": (0, [], 1),
}
UNTIL_4_0: dict[str, tuple[int, list[str], int]] = {"checkpoint-version-3.5.4": (1, [], 1)}


def of_4_0(store: str, queries: dict[str, tuple[str, int]]) -> dict[str, tuple[int, list[str], int]]:
    """Checkpoints that Spark 4.0.0 wrote with one kind of state store; by query its operator and its sources."""
    return {
        f"checkpoint-version-4.0.0{store}/{query}": (3 if "join" not in query else 4, [operator], sources)
        for query, (operator, sources) in queries.items()
    }


WITHOUT_AGG = {
    "dedup": ("dedupe", 1), "join1": ("symmetricHashJoin", 2), "join2": ("symmetricHashJoin", 2),
    "limit": ("globalLimit", 1),
}  # fmt: skip
SINCE_4_0 = {
    "checkpoint-version-3.5.1-streaming-deduplication": (1, ["unknown"], 1),
    "checkpoint-version-3.5.1-streaming-join": (0, ["unknown"], 2),
    **of_4_0("/hdfs", WITHOUT_AGG | {"agg": ("stateStoreSave", 1)}),
    **of_4_0("/rocksdb", WITHOUT_AGG | {"agg": ("stateStoreSave", 1)}),
    "checkpoint-version-4.0.0-tws-avro": (1, ["transformWithStateExec"], 1),
    "checkpoint-version-4.0.0-tws-unsaferow": (1, ["transformWithStateExec"], 1),
}
SINCE_4_2 = {
    **of_4_0("-checkpoint-v2/rocksdb", WITHOUT_AGG),
    "checkpoint-version-4.0.1-dedup-spark-53942": (0, ["dedupe"], 1),
}
REFUSED = {
    # Spark 2.1 had no commit log; 4 came without 3, and Spark's own restart refuses it likewise
    "checkpoint-version-2.1.0": (HalfWritten, "offsets/1 exists, but the newest committed batch is none"),
    "checkpoint-test-offsetId-commitId-inconsistent": (
        HalfWritten, "offsets/4 exists, but the newest committed batch is 2",
    ),
}  # fmt: skip
EXPECTED = CARRIED | (UNTIL_4_0 if SPARK < (4, 2) else SINCE_4_2) | (SINCE_4_0 if SPARK >= (4, 0) else {})


def copy_of(golden: Path, name: str, tmp_path: Path) -> str:
    shutil.copytree(golden / name, tmp_path / "checkpoint")
    return str(tmp_path / "checkpoint")


def entries(golden: Path) -> Iterator[tuple[str, bytes, Callable[[bytes, str], bytes]]]:
    """Every log entry and query id with what reads it and writes it back."""
    for path in sorted(golden.rglob("*")):
        name = path.relative_to(golden).as_posix()
        if not path.is_file() or path.name.startswith("."):
            continue
        if re.match(r"(.*/offsets/|offset-(log|map))", name):
            yield name, path.read_bytes(), lambda text, where: format_offset_entry(parse_offset_entry(text, where))
        elif re.match(r"(.*/commits/|testCommitLog)", name):
            yield name, path.read_bytes(), lambda text, where: format_commit_entry(parse_commit_entry(text, where))
        elif path.name == "metadata" and "/state/" not in name:
            yield name, path.read_bytes(), lambda text, where: format_query_id(parse_query_id(text, where))


def test_every_entry_comes_back_byte_for_byte(golden: Path) -> None:
    found = list(entries(golden))
    assert len(found) >= 80
    assert [name for name, content, again in found if again(content, name) != content] == []


def test_every_checkpoint_of_the_jar_is_in_one_of_the_tables(golden: Path) -> None:
    found = {path.parent.relative_to(golden).as_posix() for path in golden.rglob("offsets")}
    assert found == EXPECTED.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_checkpoint_of_any_spark_is_carried(golden: Path, tmp_path: Path, name: str) -> None:
    old = copy_of(golden, name, tmp_path)
    before = {path: (tmp_path / "checkpoint" / path).read_bytes() for path in FILES.walk(old)}
    new = str(tmp_path / "new")
    report = carry(old, new)
    assert (report.batch, [one.name for one in report.operators], report.other_sources) == EXPECTED[name]
    assert read_checkpoint(FILES, new, {}).model_copy(update={"checkpoint": old, "planned": None}) == (
        report.model_copy(update={"planned": None})
    )
    for log in ("offsets", "commits"):
        assert (Path(new) / log / str(report.batch)).read_bytes() == before[f"{log}/{report.batch}"]
    same = [path for path in FILES.walk(new) if path.startswith("state/") and "_metadata/v2" not in path]
    assert all((Path(new) / path).read_bytes() == before[path] for path in same)
    assert {path: content for path in FILES.walk(old) for content in [(Path(old) / path).read_bytes()]} == before


@pytest.mark.parametrize("name", REFUSED)
def test_a_checkpoint_that_cannot_be_carried_is_refused_by_name(golden: Path, tmp_path: Path, name: str) -> None:
    error, sentence = REFUSED[name]
    with pytest.raises(error, match=re.escape(sentence)):
        read_checkpoint(FILES, copy_of(golden, name, tmp_path), {})
