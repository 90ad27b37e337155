"""Every mistake in a pipeline has a sentence of its own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.spark.errors import PipelineError, PipelineMisfit, PipelineMissing, PipelineRaised
from streaming.spark.query.pipeline import build_writer, load_pipeline, takes_settings


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path / "shop.py"
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_module_that_is_not_there_is_named(module: Path) -> None:
    with pytest.raises(PipelineMissing, match="shop:revenue: there is no module shop") as caught:
        load_pipeline("shop:revenue")
    assert "configuration's folder" in caught.value.hint


def test_a_module_that_misses_another_one_says_which(module: Path) -> None:
    module.write_text("import no_such_library")
    with pytest.raises(PipelineMissing, match="no module no_such_library"):
        load_pipeline("shop:revenue")


def test_a_module_that_does_not_parse_says_why_and_may_be_mended(module: Path) -> None:
    module.write_text("def revenue(")
    with pytest.raises(PipelineMissing, match=r"does not import: SyntaxError: .*never closed"):
        load_pipeline("shop:revenue")
    module.write_text("def revenue(sources): ...  # mended, and longer than before")
    assert callable(load_pipeline("shop:revenue"))


def test_a_function_that_is_not_there_is_named(module: Path) -> None:
    module.write_text("revenue = 7")
    with pytest.raises(PipelineMissing, match="shop has no function costs"):
        load_pipeline("shop:costs")
    with pytest.raises(PipelineMissing, match="is an int, not a function"):
        load_pipeline("shop:revenue")


def test_an_error_of_a_pipeline_names_its_file_and_line() -> None:
    def broken(sources: object) -> None:
        raise KeyError("payments")

    with pytest.raises(PipelineRaised, match="shop:broken raised KeyError: 'payments'") as caught:
        build_writer("shop:broken", broken, {}, {})
    assert "test_pipeline.py:" in caught.value.hint


@pytest.mark.parametrize(("answer", "named"), [(None, "nothing"), (7, "an int"), ({}, "a dict")])
def test_an_answer_that_is_no_writer_is_named(answer: object, named: str) -> None:
    with pytest.raises(PipelineMisfit, match=f"returned {named}, not a DataStreamWriter"):
        build_writer("shop:wrong", lambda _sources: answer, {}, {})


def test_settings_are_passed_only_to_a_function_that_takes_them() -> None:
    seen: list[object] = []

    def with_settings(sources: object, settings: object) -> None:
        seen.append(settings)

    with pytest.raises(PipelineError):
        build_writer("shop:x", with_settings, {}, {"window": 10})
    assert seen == [{"window": 10}]
    assert not takes_settings(lambda sources: None)
    assert takes_settings(lambda *everything: None)
