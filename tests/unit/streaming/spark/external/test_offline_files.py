"""A command reads a local checkpoint by plain files, and any other one by a Spark that it starts."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from state.settings.keys import Query, Spark, Tideover
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.errors import SparkMissing, UnsafeCheckpoint
from streaming.spark.external import offline_files as module
from streaming.spark.external.offline_files import is_on_disk, opened_files


def settings(**conf: str) -> Tideover:
    """Only what says where Hadoop's default file system is."""
    return Tideover.model_construct(spark=Spark(conf=dict(conf)), queries={})


@pytest.mark.parametrize(
    ("checkpoint", "conf", "environment", "is_local"),
    [
        ("/cp/a", {}, {}, True),
        ("file:///cp/a", {}, {}, True),
        ("s3a://box/a", {}, {}, False),
        ("hdfs://nn:8020/a", {}, {}, False),
        ("/cp/a", {"spark.hadoop.fs.defaultFS": "hdfs://nn:8020"}, {}, False),
        ("/cp/a", {"spark.hadoop.fs.defaultFS": "file:///"}, {}, True),
        ("/cp/a", {}, {"HADOOP_CONF_DIR": "/etc/hadoop"}, False),
        ("file:///cp/a", {}, {"HADOOP_CONF_DIR": "/etc/hadoop"}, True),
    ],
)
def test_only_what_is_on_a_disk_for_sure_needs_no_spark(
    checkpoint: str, conf: dict[str, str], environment: dict[str, str], is_local: bool
) -> None:
    assert is_on_disk(settings(**conf), [checkpoint], environment) is is_local
    assert not is_on_disk(settings(**conf), [checkpoint, "s3a://box/b"], environment)


def test_a_local_checkpoint_is_read_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with opened_files(settings(), "a", [str(tmp_path)], tmp_path) as opened:
        assert isinstance(opened.files, LocalFiles)
        opened.require_safe()


@pytest.mark.parametrize(
    ("checkpoint", "why"),
    [
        ("abfss://box@shop.dfs.core.windows.net/a", "is on abfss, where no file is replaced in one step"),
        ("viewfs://shop/a", "is on viewfs, where two drivers could both create one entry"),
    ],
)
def test_a_file_that_is_not_replaced_in_one_step_is_refused_before_spark(
    tmp_path: Path, checkpoint: str, why: str
) -> None:
    with pytest.raises(UnsafeCheckpoint, match=why), opened_files(settings(), "a", [checkpoint], tmp_path):
        pytest.fail("it was opened")


def printing(error: SparkMissing | None) -> object:
    """What launches a Spark that prints on both outputs, and fails or not."""

    class Session:
        def stop(self) -> None:
            """Nothing runs."""

    def launched(*_: object, **__: object) -> Session:
        text = "import sys; print('a line of Spark'); print('another', file=sys.stderr)"
        subprocess.run([sys.executable, "-c", text], check=True)
        if error is not None:
            raise error
        return Session()

    return launched


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tideover:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "companion_jar", lambda: None)
    monkeypatch.setattr(module, "HadoopFiles", lambda _: LocalFiles())
    query = Query.model_construct(runners=("a",))
    return Tideover.model_construct(spark=Spark(), queries={"q": query})


def test_lines_of_spark_do_not_reach_the_terminal(
    shop: Tideover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "open_session", printing(None))
    with opened_files(shop, "q", ["hdfs://nn/cp"], tmp_path):
        print("a line of ours")
    assert capfd.readouterr() == ("a line of ours\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("hint", ["", "install it"])
def test_lines_of_a_spark_that_cannot_start_are_kept(
    shop: Tideover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], hint: str
) -> None:
    monkeypatch.setattr(module, "open_session", printing(SparkMissing("there is no Java", hint=hint)))
    with (
        pytest.raises(SparkMissing, match="there is no Java") as missing,
        opened_files(shop, "q", ["hdfs://nn/cp"], tmp_path),
    ):
        pytest.fail("it was opened")
    assert capfd.readouterr() == ("", "")
    assert missing.value.hint.startswith(hint)
    printed = re.search(r"what Spark printed is in (\S+)$", missing.value.hint)
    assert printed is not None
    assert sorted(Path(printed[1]).read_text(encoding="utf-8").split("\n")) == ["", "a line of Spark", "another"]
