"""Who gets notices, as the configuration says it, and what is refused before a controller starts."""

import sys
from pathlib import Path

import pytest

from orchestrator.cli.serve.control import channels_of
from orchestrator.config.load import load
from orchestrator.config.masks import masked
from orchestrator.errors import ConfigError
from orchestrator.notify.teller import Channel
from tests.served import CONFIG

SECRET = "json://user:open-sesame@localhost/hook"
NOTIFY = """
notify:
  targets:
    - {name: oncall, url: "env:ONCALL", kinds: {drill: info, readiness: off}}
"""


def channels(folder: Path, notify: str, url: str = SECRET) -> dict[str, Channel]:
    (folder / "tideover.yaml").write_text(CONFIG + notify, encoding="utf-8")
    return channels_of(load(folder / "tideover.yaml", {"ONCALL": url}).settings)


def test_each_target_has_its_channel_and_none_is_required(tmp_path: Path) -> None:
    assert channels(tmp_path, NOTIFY).keys() == {"oncall"}
    assert channels(tmp_path, "") == {}


def test_the_url_is_a_secret_that_is_named_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        channels(tmp_path, NOTIFY.replace("env:ONCALL", SECRET))
    assert [mistake.partition(":")[0] for mistake in refused.value.mistakes] == ["notify.targets.0.url"]
    assert "open-sesame" not in str(refused.value) + str(refused.value.mistakes)
    channels(tmp_path, NOTIFY)
    settings = load(tmp_path / "tideover.yaml", {"ONCALL": SECRET}).settings
    assert "open-sesame" not in str(masked(settings)) + repr(settings)
    (target,) = settings.notify.targets
    reported = {kind: target.severity_of(kind) for kind in ("cluster", "drill", "readiness")}
    assert reported == {"cluster": "warning", "drill": "info", "readiness": None}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("drill: info", "weather: info"), "weather"),
        (("drill: info", "drill: loud"), "drill"),
        (("{name: oncall,", '{name: oncall, url: "env:ONCALL"}\n    - {name: oncall,'), "two have the same name"),
    ],
)
def test_a_mistake_of_a_target_is_shown_with_its_place(tmp_path: Path, change: tuple[str, str], word: str) -> None:
    with pytest.raises(ConfigError) as refused:
        channels(tmp_path, NOTIFY.replace(*change))
    assert word in str(refused.value.mistakes)


def test_without_apprise_a_controller_with_targets_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "orchestrator.notify.apprise_channel", None)
    with pytest.raises(ConfigError, match="apprise, which is not installed"):
        channels(tmp_path, NOTIFY)
    assert channels(tmp_path, "") == {}


def test_an_unknown_service_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the url of oncall"):
        channels(tmp_path, NOTIFY, "nowhere://x")
