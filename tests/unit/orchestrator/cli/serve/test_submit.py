"""An application is started with Tideover's jar and settings, if the configuration has a query of it."""

import shlex
from pathlib import Path

import pytest

from orchestrator.cli.app import main
from streaming.companion.jar import companion_jar
from tests.served import ATTACHED, CONFIG


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tideover.yaml"
    path.write_text(ATTACHED, encoding="utf-8")
    return path


def typed(config: Path, *words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["-c", str(config), "submit", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_dry_run_prints_the_whole_command_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = typed(config, "--dry-run", "--application", "a", "--", "spark-submit", "job.py", "-o", capsys=capsys)
    words = shlex.split(out)
    assert (code, words[0], words[-2:]) == (0, "spark-submit", ["job.py", "-o"])
    assert words[words.index("--jars") + 1] == str(companion_jar())
    assert f"spark.tideover.config={config}" in words
    assert "spark.tideover.application=a" in words


def test_a_name_that_no_query_has_is_refused_before_the_start(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = typed(config, "--", "spark-submit", "--name", "shop", "job.py", capsys=capsys)
    assert (code, out) == (2, "")
    assert "no query has attach: shop" in err
    assert "declared are a" in err


def test_a_configuration_without_an_attached_query_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(CONFIG, encoding="utf-8")
    code, _, err = typed(config, "--", "spark-submit", "job.py", capsys=capsys)
    assert (code, "no query in the configuration has attach" in err) == (2, True)


def test_a_program_that_does_not_exist_is_one_sentence(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = typed(config, "--", "/nowhere/spark-submit", "job.py", capsys=capsys)
    assert (code, "/nowhere/spark-submit cannot be started: No such file or directory" in err) == (2, True)


def test_a_driver_on_another_host_gets_no_path_of_this_one(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--dry-run", "--", "spark-submit", "--deploy-mode", "cluster", "job.py")
    code, out, err = typed(config, *words, capsys=capsys)
    assert (code, "spark.tideover.command" in out, "by the same paths" in err) == (0, False, True)


def test_a_file_of_defaults_that_spark_would_refuse_is_one_sentence(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("spark.jars \\u12", encoding="ascii")
    code, _, err = typed(config, "--", "spark-submit", "--properties-file", str(file), "job.py", capsys=capsys)
    assert (code, f"{file} cannot be read as Spark reads it: line 1" in err) == (2, True)


def test_settings_of_both_files_are_kept_and_the_named_one_counts(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named, defaults = tmp_path / "job.conf", tmp_path / "spark-defaults.conf"
    named.write_text("spark.plugins a.Named\n", encoding="utf-8")
    defaults.write_text(
        "spark.plugins a.Default\nspark.jars d.jar\nspark.submit.deployMode cluster\n", encoding="utf-8"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    words = ("--dry-run", "--", "spark-submit", "--properties-file", str(named), "--load-spark-defaults", "job.py")
    code, out, err = typed(config, *words, capsys=capsys)
    line = shlex.split(out)
    assert (code, "by the same paths" in err, "spark.tideover.command" in out) == (0, True, False)
    assert line[line.index("--jars") + 1] == f"d.jar,{companion_jar()}"
    assert "spark.plugins=a.Named,tideover.AttachPlugin" in line
