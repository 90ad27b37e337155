"""Configuration: every mistake at once, YAML's traps, secrets by reference, paths relative to the file."""

import json
from pathlib import Path

import pytest
import yaml

from orchestrator.config import load, locate
from orchestrator.dump import MASK, masked
from orchestrator.errors import ConfigError

GOOD = """
store: sqlite:///var/tideover.db
clusters:
  east: {bootstrap: [localhost:19092]}
  west: {bootstrap: [localhost:29092]}
routes: [{from: east, to: west}]
runners: {a: {site: one}}
queries:
  revenue:
    pipeline: examples.orders:revenue
    sources: {orders: {topics: [orders]}}
    clusters: [east, west]
    runners: [a]
    checkpoint: var/revenue
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tideover.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def mistakes_of(tmp_path: Path, text: str, environment: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, text), environment or {})
    return caught.value.mistakes


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    settings = load(written(tmp_path, GOOD)).settings
    assert settings.store.get_secret_value() == f"sqlite:///{tmp_path}/var/tideover.db"
    assert settings.queries["revenue"].checkpoint == str(tmp_path / "var/revenue")


def test_a_checkpoint_with_a_scheme_is_left_alone(tmp_path: Path) -> None:
    settings = load(written(tmp_path, GOOD.replace("var/revenue", "s3a://bucket/revenue"))).settings
    assert settings.queries["revenue"].checkpoint == "s3a://bucket/revenue"


def test_all_mistakes_are_told_at_once_with_their_path_and_a_suggestion(tmp_path: Path) -> None:
    text = (
        GOOD.replace("to: west", "to: north")
        .replace("runners: [a]", "runners: [b]")
        .replace("{topics: [orders]}", "{topics: [orders], opitons: {}}")
        .replace("store: sqlite:///var/tideover.db", "store: env:NOWHERE")
        + "    trigger: 1 parsec\n    methods: [exakt]\ndetektion: {}\n"
    )
    found = "\n".join(mistakes_of(tmp_path, text))
    for expected in (
        "store: the environment variable NOWHERE is not set",
        "routes.0: cluster 'north' is not declared",
        "queries.revenue.runners: runner 'b' is not declared",
        "queries.revenue.sources.orders.opitons: no such key; did you mean 'options'?",
        "queries.revenue.trigger: '1 parsec' is not a duration",
        "queries.revenue.methods.0: ",
        "detektion: no such key; did you mean 'detection'?",
    ):
        assert expected in found


def test_missing_keys_and_undeclared_names_are_told_when_everything_else_is_right(tmp_path: Path) -> None:
    assert mistakes_of(tmp_path, GOOD.replace("[east, west]", "[east, south]")) == (
        "queries.revenue.clusters: cluster 'south' is not declared",
    )
    assert mistakes_of(tmp_path, GOOD.replace("    checkpoint: var/revenue\n", "")) == (
        "queries.revenue.checkpoint: is needed",
    )


def test_a_key_given_twice_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line \d+, column 3: the key 'east' is given twice"):
        load(written(tmp_path, GOOD.replace("  west: {", "  east: {bootstrap: [a:1]}\n  west: {")))


@pytest.mark.parametrize("word", ["on", "no", "off", "yes", "12:30", "2026-01-01", "0x1f", "1e3", "010"])
def test_words_stay_words(tmp_path: Path, word: str) -> None:
    settings = load(written(tmp_path, GOOD + f"    settings: {{word: {word}, {word}: 1}}\n")).settings
    assert settings.queries["revenue"].settings == {"word": word, word: 1}


def test_true_numbers_and_null_keep_their_types(tmp_path: Path) -> None:
    values = load(written(tmp_path, GOOD + "    settings: {a: true, b: -7, c: 0.5, d: null, e: '1'}\n")).settings
    assert values.queries["revenue"].settings == {"a": True, "b": -7, "c": 0.5, "d": None, "e": "1"}


def test_secrets_come_from_the_environment_or_a_file_and_are_masked(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("swordfish\n", encoding="utf-8")
    sasl = "{protocol: SASL_PLAINTEXT, sasl: {mechanism: PLAIN, username: u, password: file:word}}"
    text = (
        GOOD.replace("[localhost:19092]}", f"[localhost:19092], security: {sasl}}}").replace(
            "sqlite:///var/tideover.db", "env:URL"
        )
        + "http: {token: env:TOKEN}\n"
    )
    settings = load(written(tmp_path, text), {"URL": "postgresql+psycopg://u:hush@h/d", "TOKEN": "tok"}).settings
    password = settings.clusters["east"].security.sasl
    assert password is not None
    assert password.password is not None
    assert password.password.get_secret_value() == "swordfish"
    shown = json.dumps(masked(settings)) + repr(settings) + yaml.safe_dump(masked(settings))
    assert not any(secret in shown for secret in ("swordfish", "hush", '"tok"'))
    assert masked(settings)["store"] == f"postgresql+psycopg://u:{MASK}@h/d"


@pytest.mark.parametrize("text", ["http: {token: tok}\n", "http: {token: file:nowhere}\n"])
def test_a_secret_in_the_file_or_missing_is_a_mistake(tmp_path: Path, text: str) -> None:
    (mistake, *_) = mistakes_of(tmp_path, GOOD + text)
    assert mistake.startswith("http.token: ")
    assert "tok: " not in mistake


def test_a_password_inside_the_store_url_is_a_mistake(tmp_path: Path) -> None:
    (mistake, *_) = mistakes_of(tmp_path, GOOD.replace("sqlite:///var/tideover.db", "postgresql://u:hush@h/d"))
    assert mistake == "store: a secret is not written here; name it as env:NAME or file:PATH"


def test_a_missing_tls_file_is_a_mistake(tmp_path: Path) -> None:
    text = GOOD.replace("[localhost:19092]}", "[localhost:19092], security: {protocol: SSL, ca: ca.pem}}")
    assert mistakes_of(tmp_path, text) == (f"clusters.east.security.ca: {tmp_path}/ca.pem is not a file",)


@pytest.mark.parametrize("text", ["", "- a\n", "a: [\n", "a: b: c\n", "a: !!python/object:os.system {}\n"])
def test_what_is_no_mapping_is_refused_with_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        load(written(tmp_path, text))


def test_the_file_is_found_by_flag_then_environment_then_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    assert locate(None, {}) == path
    other = tmp_path / "other.yaml"
    other.write_text(GOOD, encoding="utf-8")
    assert locate(None, {"TIDEOVER_CONFIG": str(other)}) == other
    assert locate(path, {"TIDEOVER_CONFIG": str(other)}) == path
    with pytest.raises(ConfigError, match="is not a file"):
        locate("nowhere.yaml", {})


def test_the_masked_dump_writes_durations_as_the_file_does(tmp_path: Path) -> None:
    shown = masked(load(written(tmp_path, GOOD)).settings)
    assert shown["detection"] == {"interval": "500ms", "timeout": "1s", "failures": 3}
    assert shown["routes"][0]["from"] == "east"  # type: ignore[index] # plain JSON
