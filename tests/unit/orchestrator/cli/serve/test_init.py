"""A first configuration is written whole or not at all."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator.cli.app import main
from orchestrator.cli.serve import init as module
from orchestrator.cli.serve.init import Answered
from orchestrator.config.load import load

EAST, WEST = "A" * 22, "B" * 22


def made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ids: Mapping[str, str], *words: str | Path
) -> tuple[int, str]:
    monkeypatch.setattr(module, "look", lambda name, cluster: Answered(id=ids[name], topics=frozenset({"orders"})))
    code = main(["init", *map(str, words)])
    return code, capsys.readouterr().err


def test_a_configuration_pins_the_ids_and_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "made.yaml"
    words = ("--cluster", "east=e:1,f:1", "--cluster", "west=w:1", "--write", file)
    code, _ = made(monkeypatch, capsys, {"east": EAST, "west": WEST}, *words)
    settings = load(file, {}).settings
    assert (code, settings.clusters["east"].id, settings.clusters["east"].bootstrap) == (0, EAST, ("e:1", "f:1"))
    assert settings.route("east", "west") is not None
    code, said = made(monkeypatch, capsys, {"east": EAST, "west": WEST}, *words)
    assert (code, "is there already" in said) == (2, True)


def test_two_addresses_of_one_cluster_are_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--cluster", "east=e:1", "--cluster", "west=w:1", "--write", tmp_path / "made.yaml")
    code, said = made(monkeypatch, capsys, {"east": EAST, "west": EAST}, *words)
    assert (code, f"east and west are one cluster, by its id {EAST}" in said) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_leaves_an_empty_folder_and_the_next_try_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--cluster", "east=e:1", "--cluster", "west=w:1", "--write", tmp_path / "made.yaml")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as during:
        during.setattr(os, "fsync", full)
        code, said = made(during, capsys, {"east": EAST, "west": WEST}, *words)
    assert (code, "cannot be written: no space left" in said) == (2, True)
    assert list(tmp_path.iterdir()) == []
    assert made(monkeypatch, capsys, {"east": EAST, "west": WEST}, *words)[0] == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--cluster", "east=e:1"), "one cluster has no standby"),
        (("--cluster", "east", "--cluster", "west=w:1"), "east is not NAME=HOST:PORT"),
        (("--cluster", "east=e:1", "--cluster", "east=w:1"), "names east twice"),
    ],
)
def test_a_wrong_word_is_one_sentence(
    words: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    code, said = made(monkeypatch, capsys, {}, *words, "--write", tmp_path / "made.yaml")
    assert (code, why in said) == (2, True)


def test_a_cluster_that_does_not_answer_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_SECONDS", 1.0)
    code = main(
        ["init", "--cluster", "east=127.0.0.1:1", "--cluster", "west=127.0.0.1:2", "--write", str(tmp_path / "x")]
    )
    assert (code, "east did not answer" in capsys.readouterr().err) == (2, True)


def test_a_secret_of_a_properties_file_is_never_in_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secured = tmp_path / "client.properties"
    secured.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nacks=all\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="hidden";\n'
    )
    file = tmp_path / "made.yaml"
    words = ("--cluster", "east=e:1", "--cluster", "west=w:1", "--write", file, "--command-config")
    code, said = made(monkeypatch, capsys, {"east": EAST, "west": EAST}, *words, f"east={secured}")
    assert (code, "are one cluster" in said, list(tmp_path.iterdir())) == (2, True, [secured])
    code, said = made(monkeypatch, capsys, {"east": EAST, "west": WEST}, *words, f"east={secured}")
    assert (code, "hidden" in said + file.read_text(), "not needed for east: acks" in said) == (0, False, True)
    clusters = load(file, {}).settings.clusters
    assert (clusters["east"].security.protocol, clusters["west"].security.protocol) == ("SASL_PLAINTEXT", "PLAINTEXT")
    assert (tmp_path / "secrets" / "east.password").read_text() == "hidden"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--command-config", "a.properties", "--command-config", "b.properties"), "are both for each cluster"),
        (("--command-config", "east=a", "--command-config", "east=b"), "names east twice"),
        (("--command-config", "none.properties"), "none.properties cannot be read: No such file"),
        (("--cluster", "s o=x:1"), "the clusters cannot be configured:\n  clusters.s o"),
    ],
)
def test_a_wrong_properties_file_or_name_leaves_nothing(
    words: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    both = ("--cluster", "east=e:1", "--cluster", "west=w:1")
    code, said = made(monkeypatch, capsys, {}, *both, *words)
    assert (code, why in said, list(tmp_path.iterdir())) == (2, True, []), said
