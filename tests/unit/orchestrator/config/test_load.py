"""Configuration: every mistake at once, YAML's traps, secrets by reference, paths relative to the file."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from orchestrator.config.load import load, locate, names
from orchestrator.config.masks import MASK, masked
from orchestrator.errors import ConfigError
from state.settings.checkpoint_schemes import HINT
from state.settings.keys import Resume
from state.settings.security import Password
from streaming.secrets import reveal

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
    settings = load(written(tmp_path, GOOD.replace("var/revenue", "hdfs://names/revenue"))).settings
    assert settings.queries["revenue"].checkpoint == "hdfs://names/revenue"


def test_all_mistakes_come_at_once_with_their_path_and_a_suggestion(tmp_path: Path) -> None:
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


def test_missing_keys_and_undeclared_names_come_last(tmp_path: Path) -> None:
    assert mistakes_of(tmp_path, GOOD.replace("[east, west]", "[east, south]")) == (
        "queries.revenue.clusters: cluster 'south' is not declared",
    )
    assert mistakes_of(tmp_path, GOOD.replace("    checkpoint: var/revenue\n", "")) == (
        "queries.revenue.checkpoint: is required",
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
        + "http: {listen: 'localhost:1', tokens: [{name: n, role: viewer, token: env:TOKEN}]}\n"
    )
    settings = load(
        written(tmp_path, text), {"URL": "postgresql+psycopg://u:hush@h/d", "TOKEN": "0123456789abcdef-tok"}
    ).settings
    password = settings.clusters["east"].security.sasl
    assert isinstance(password, Password)
    assert reveal(password.password) == "swordfish"
    (tmp_path / "word").write_text("herring\n", encoding="utf-8")
    assert reveal(password.password) == "herring", "a cluster's secret is read when it is used"
    shown = json.dumps(masked(settings)) + repr(settings) + yaml.safe_dump(masked(settings))
    assert not any(secret in shown for secret in ("swordfish", "hush", '"tok"'))
    assert masked(settings)["store"] == f"postgresql+psycopg://u:{MASK}@h/d"


ATTACHED = GOOD.replace("pipeline: examples.orders:revenue", "attach: a").replace("    runners: [a]\n", "")


def test_an_attached_query_has_its_application_for_a_runner(tmp_path: Path) -> None:
    query = load(written(tmp_path, ATTACHED)).settings.queries["revenue"]
    assert query.runners == ("a",)
    assert {query.resume_with(companion=known) for known in (True, False)} == {Resume.SWITCH}


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        (ATTACHED.replace("attach: a", "trigger: 1s"), ["name one of pipeline, attach and application"]),
        (
            ATTACHED.replace("attach: a", "attach: a\n    pipeline: m:f"),
            ["name one of pipeline, attach and application"],
        ),
        (GOOD.replace("runners: [a]", "runners: []"), ["runners: name at least one"]),
        (
            ATTACHED.replace("attach: a", "attach: a\n    trigger: 1s\n    resume: carry\n    runners: [b]"),
            ["trigger: remove it", "runners: remove it", "only switch is possible, not carry"],
        ),
        (
            ATTACHED.replace("attach: a", "attach: a\n    output: {topic: out, options: {includeHeaders: true}}"),
            ["output.options: remove them"],
        ),
        (GOOD.replace("runners: [a]", "runners: [a]\n    batch_reads: [prices]"), ["batch_reads: only with attach"]),
        (ATTACHED.replace("attach: a", "attach: shop"), ["queries.revenue.attach: runner 'shop' is not declared"]),
        (
            ATTACHED + GOOD.partition("queries:\n")[2].replace("revenue", "other"),
            ["queries.other.runners: 'a' is the application of queries.revenue"],
        ),
    ],
)
def test_mistakes_about_an_application_come_at_once(tmp_path: Path, text: str, mistakes: list[str]) -> None:
    found = mistakes_of(tmp_path, text)
    for mistake in mistakes:
        assert any(mistake in each for each in found), found


def test_a_file_with_the_url_of_a_store_is_read_when_it_is_used(tmp_path: Path) -> None:
    url, text = tmp_path / "url", GOOD.replace("sqlite:///var/tideover.db", "file:url")
    url.write_text("postgresql://u:swordfish@h/d\n", encoding="utf-8")
    settings = load(written(tmp_path, text)).settings
    assert reveal(settings.store) == "postgresql://u:swordfish@h/d"
    url.write_text("postgresql://u:herring@h/d\n", encoding="utf-8")
    assert reveal(settings.store) == "postgresql://u:herring@h/d"
    assert masked(settings)["store"] == f"postgresql://u:{MASK}@h/d"
    url.write_text("sqlite:///var/tideover.db\n", encoding="utf-8")
    assert reveal(load(written(tmp_path, text)).settings.store) == f"sqlite:///{tmp_path}/var/tideover.db"


def with_token(reference: str) -> str:
    return f"http: {{listen: 'localhost:1', tokens: [{{name: n, role: viewer, token: {reference}}}]}}\n"


@pytest.mark.parametrize("token", ["tok", "file:nowhere"])
def test_a_secret_in_the_file_or_missing_is_a_mistake(tmp_path: Path, token: str) -> None:
    (mistake, *_) = mistakes_of(tmp_path, GOOD + with_token(token))
    assert mistake.startswith("http.tokens.0.token: ")
    assert "tok: " not in mistake


def test_a_password_inside_the_store_url_is_a_mistake(tmp_path: Path) -> None:
    (mistake, *_) = mistakes_of(tmp_path, GOOD.replace("sqlite:///var/tideover.db", "postgresql://u:hush@h/d"))
    assert mistake == "store: do not write a secret here; give it as env:NAME or file:PATH"


def test_a_heartbeat_topic_that_is_written_locally_is_a_mistake(tmp_path: Path) -> None:
    (mistake,) = mistakes_of(tmp_path, GOOD.replace("to: west}", "to: west, heartbeats: heartbeats}"))
    assert mistake.startswith("routes.0: heartbeats: ")
    assert "proves nothing of east" in mistake


@pytest.mark.parametrize(
    "store", ["postgresql://h/d?password=hush", "postgresql://h/d?x=1&sslpassword=hush", "postgresql://u:hu/sh@h/d"]
)
def test_a_password_anywhere_in_the_store_url_is_a_mistake(tmp_path: Path, store: str) -> None:
    (mistake,) = mistakes_of(tmp_path, GOOD.replace("sqlite:///var/tideover.db", store))
    assert mistake == "store: do not write a secret here; give it as env:NAME or file:PATH"
    shown = masked(load(written(tmp_path, GOOD.replace("sqlite:///var/tideover.db", "env:U")), {"U": store}).settings)
    assert "sh" not in str(shown["store"]).replace(MASK, "")


def test_each_way_to_log_in_has_its_own_keys_and_mistakes_come_at_once(tmp_path: Path) -> None:
    sasl = "{mechanism: OAUTHBEARER, token_endpoint: x, client_secret: hush, clientid: c, username: u, ca: no.pem}"
    text = GOOD.replace("[localhost:19092]}", f"[localhost:19092], security: {{protocol: SASL_SSL, sasl: {sasl}}}}}")
    found = mistakes_of(tmp_path, text)
    at = "clusters.east.security.sasl"
    assert f"{at}.client_secret: do not write a secret here; give it as env:NAME or file:PATH" in found
    assert f"{at}.ca: {tmp_path / 'no.pem'} is not a file" in found
    assert f"{at}.client_id: is required" in found
    assert f"{at}.clientid: no such key; did you mean 'client_id'?" in found
    assert f"{at}.username: no such key" in found
    assert any(each.startswith(f"{at}.token_endpoint: ") for each in found)
    assert len(found) == 6


def test_a_way_to_log_in_that_is_unknown_or_missing_is_named(tmp_path: Path) -> None:
    for sasl, sentence in (
        ("{username: u}", "is required"),
        (
            "{mechanism: CRAM}",
            "must be one of 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER', 'AWS_MSK_IAM', 'GSSAPI'",
        ),
    ):
        security = f"security: {{protocol: SASL_SSL, sasl: {sasl}}}"
        text = GOOD.replace("[localhost:19092]}", f"[localhost:19092], {security}}}")
        assert mistakes_of(tmp_path, text) == (f"clusters.east.security.sasl.mechanism: {sentence}",)


def test_a_dot_in_a_name_hides_no_secret(tmp_path: Path) -> None:
    security = "security: {protocol: SASL_SSL, sasl: {mechanism: PLAIN, username: u, password: hush}}"
    text = GOOD.replace("east", "dc.east").replace("[localhost:19092]}", f"[localhost:19092], {security}}}")
    (mistake,) = mistakes_of(tmp_path, text)
    assert mistake.startswith("clusters.dc.east.security.sasl.password: do not write a secret here")


def test_options_handed_on_to_spark_have_their_secrets_by_reference_too(tmp_path: Path) -> None:
    conf = "spark: {conf: {spark.hadoop.fs.s3a.secret.key: %s, spark.app.name: env:PLAIN}}\n"
    assert mistakes_of(tmp_path, GOOD + conf % "hush") == (
        "spark.conf.spark.hadoop.fs.s3a.secret.key: do not write a secret here; give it as env:NAME or file:PATH",
    )
    settings = load(written(tmp_path, GOOD + conf % "env:KEY"), {"KEY": "hush"}).settings
    assert settings.spark.conf == {"spark.hadoop.fs.s3a.secret.key": "hush", "spark.app.name": "env:PLAIN"}
    assert "hush" not in json.dumps(masked(settings))
    found = mistakes_of(tmp_path, GOOD + "    settings: {api_token: 5}\n    spark: {spark.ssl.password: x}\n")
    assert [mistake.partition(": ")[0] for mistake in found] == [
        "queries.revenue.settings.api_token", "queries.revenue.spark.spark.ssl.password"
    ]  # fmt: skip


def test_settings_of_a_cluster_replace_those_of_the_query(tmp_path: Path) -> None:
    more = "    settings: {registry: e, batch: 5}\n    settings_by_cluster: {west: {registry: w, api_token: %s}}\n"
    assert mistakes_of(tmp_path, GOOD + more % "hush") == (
        (
            "queries.revenue.settings_by_cluster.west.api_token: do not write a secret here; give it as env:NAME or "
            "file:PATH"
        ),
    )
    settings = load(written(tmp_path, GOOD + more % "env:TOKEN"), {"TOKEN": "hush"}).settings
    query = settings.queries["revenue"]
    assert query.settings_on("east") == {"registry": "e", "batch": 5}
    assert query.settings_on("west") == {"registry": "w", "batch": 5, "api_token": "hush"}
    assert "hush" not in json.dumps(masked(settings))


def test_a_secret_that_is_empty_or_unreadable_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n", encoding="utf-8")
    (tmp_path / "odd").write_bytes(b"\xff")
    for reference, why in (
        ("env:EMPTY", "the environment variable EMPTY is empty"),
        ("file:empty", f"{tmp_path}/empty is empty"),
        ("file:odd", f"{tmp_path}/odd cannot be read: it is not valid UTF-8 text"),
    ):
        assert mistakes_of(tmp_path, GOOD + with_token(reference), {"EMPTY": ""}) == (f"http.tokens.0.token: {why}",)


def test_a_pattern_is_a_regular_expression(tmp_path: Path) -> None:
    good = GOOD.replace("topics: [orders]", "pattern: 'ord.*|pay'")
    assert load(written(tmp_path, good)).settings.queries["revenue"].sources["orders"].pattern == "ord.*|pay"
    (mistake,) = mistakes_of(tmp_path, GOOD.replace("topics: [orders]", "pattern: 'ord('"))
    assert mistake.startswith("queries.revenue.sources.orders.pattern: 'ord(' is not a regular expression")


def test_mistakes_use_the_words_of_yaml(tmp_path: Path) -> None:
    text = (
        GOOD.replace("[localhost:29092]", "localhost")
        .replace("[localhost:19092]", "[localhost, 'h:99999', 'h:9092']")
        .replace("runners: {a: {site: one}}", "runners: [a]")
        .replace("examples.orders:revenue", "examples.orders")
        .replace("[orders]}", "[orders], options: {a: [1]}}")
        .replace("[east, west]", "[east]")
        + "    buffer: never\n    resume: magic\ndetection: {interval: 1ms, failures: 0.5}\nhttp: {listen: here}\n"
    )
    assert set(mistakes_of(tmp_path, text)) >= {
        "clusters.west.bootstrap: must be a list",
        "clusters.east.bootstrap.0: 'localhost' is not host:port",
        "clusters.east.bootstrap.1: 'h:99999' is not host:port",
        "runners: must be a group of keys",
        "queries.revenue.pipeline: 'examples.orders' is not module:function",
        "queries.revenue.sources.orders.options.a: must be text, a whole number, a number or true or false",
        "queries.revenue.clusters: must have 2 or more entries",
        (
            "queries.revenue.buffer: 'never' is not a duration: write a number with ms, s, m, h or d, for example 15m, "
            "or measured"
        ),
        "queries.revenue.resume: must be 'auto', 'switch', 'carry' or 'fresh'",
        "detection.interval: must be between 50ms and 1m",
        "detection.failures: must be a whole number",
        "http.listen: 'here' is not host:port, or off",
    }


def test_an_entry_that_is_wrong_does_not_make_its_list_too_short(tmp_path: Path) -> None:
    assert mistakes_of(tmp_path, GOOD.replace("[localhost:19092]", "[localhost]")) == (
        "clusters.east.bootstrap.0: 'localhost' is not host:port",
    )


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        (("[east, west]", "[east, west, east]"), "queries.revenue.clusters: cluster 'east' is named twice"),
        (("runners: [a]", "runners: [a, a]"), "queries.revenue.runners: runner 'a' is named twice"),
        (("to: west}", "to: east}"), "routes.0: from and to are both 'east'"),
        (("to: west}]", "to: west}, {from: east, to: west}]"), "routes.1: routes.0 is from 'east' to 'west' already"),
        (
            ("queries:\n", ("queries:\n  b: {pipeline: 'a:b', sources: {o: {topics: [o]}}, clusters: [east, west], "
                           "runners: [a], checkpoint: ./var/revenue/}\n")),
            "queries.revenue.checkpoint: it is already that of query 'b'",
        ),
        (
            ("{topics: [orders]}", "{topics: [orders], options: {Kafka.Bootstrap.Servers: 'x:1'}}"),
            ("queries.revenue.sources.orders: options.Kafka.Bootstrap.Servers is set by Tideover, because it "
            "changes with the cluster: remove it"),
        ),
        (
            ("{topics: [orders]}", "{topics: [orders], options: {kafka.Group.id: mine}}"),
            ("queries.revenue.sources.orders: options.kafka.Group.id cannot be used: Spark ties a group's consumers to "
            "one cluster and one password until its driver ends, so the query could not be moved; use groupIdPrefix"),
        ),
        (
            ("    checkpoint:", "    settings_by_cluster: {north: {registry: n}}\n    checkpoint:"),
            "queries.revenue.settings_by_cluster: the query does not run on cluster 'north'",
        ),
        (
            ("    checkpoint:", "    output: {topic: o, options: {topic: p}}\n    checkpoint:"),
            "queries.revenue.output: options.topic is set by Tideover, because it changes with the cluster: remove it",
        ),
        *(
            (("checkpoint: var/revenue", f"checkpoint: {path}"),
             (f"queries.revenue.checkpoint: {path} is on {scheme}, where two drivers could both create one entry of "
              f"its log and run the query twice; {HINT}"))
            for path, scheme in (("oss://bucket/revenue", "oss"), ("viewfs://all/revenue", "viewfs"),
                                 ("WASB://bucket/revenue", "wasb"))
        ),
        (
            ("queries:", "spark: {conf: {spark.hadoop.fs.defaultFS: 'wasb://c@a/'}}\nqueries:"),
            ("queries.revenue.checkpoint: {} is on wasb, by fs.defaultFS, where two drivers could both create one "
             f"entry of its log and run the query twice; {HINT}"),
        ),
        (("store: sqlite:///var/tideover.db", "store: nosuch"), ("store: write sqlite:///path (one host) or "
         "postgresql+psycopg://... (several)")),
    ],
)  # fmt: skip
def test_a_contradiction_is_a_mistake(tmp_path: Path, change: tuple[str, str], mistake: str) -> None:
    mistake = mistake.replace("{}", str(tmp_path / "var/revenue"))
    assert mistakes_of(tmp_path, GOOD.replace(*change)) == (mistake,)
    assert mistake in mistakes_of(tmp_path, GOOD.replace(*change) + "detektion: {}\n")


def test_a_missing_tls_file_is_a_mistake(tmp_path: Path) -> None:
    text = GOOD.replace("[localhost:19092]}", "[localhost:19092], security: {protocol: SSL, ca: ca.pem}}")
    assert mistakes_of(tmp_path, text) == (f"clusters.east.security.ca: {tmp_path}/ca.pem is not a file",)


def with_key(tmp_path: Path, kind: str) -> str:
    (tmp_path / "t.pem").write_text("any", encoding="ascii")
    key = f"Bag Attributes\n-----BEGIN {kind}-----\nMIGH\n-----END {kind}-----\n"
    (tmp_path / "t.key").write_text(key, encoding="ascii")
    security = "security: {protocol: SSL, cert: t.pem, key: t.key}"
    return GOOD.replace("[localhost:19092]}", f"[localhost:19092], {security}}}")


@pytest.mark.parametrize("kind", [f"{form} PRIVATE KEY" for form in ("RSA", "EC", "DSA", "OPENSSH")])
def test_a_key_that_javas_clients_cannot_read_is_a_mistake(tmp_path: Path, kind: str) -> None:
    (mistake,) = mistakes_of(tmp_path, with_key(tmp_path, kind))
    assert mistake == (
        f"clusters.east.security.key: {tmp_path}/t.key begins with BEGIN {kind}, which Kafka's Java "
        "clients cannot read; "
        "convert it with openssl pkcs8 -topk8 -nocrypt -in OLD -out NEW; the new key has no password, so remove "
        "key_password"
    )


@pytest.mark.parametrize("kind", ["PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
def test_a_key_in_pkcs_8_is_taken(tmp_path: Path, kind: str) -> None:
    assert load(written(tmp_path, with_key(tmp_path, kind)), {}).settings.clusters["east"].security.key is not None


def test_a_key_that_this_user_may_not_read_is_left_to_who_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    path = written(tmp_path, with_key(tmp_path, "EC PRIVATE KEY"))
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert load(path, {}).settings.clusters["east"].security.key is not None


@pytest.mark.parametrize("master", ["yarn", "k8s://https://one:6443", "spark://one:7077"])
def test_a_standalone_master_and_yarn_prove_an_end(tmp_path: Path, master: str) -> None:
    text = GOOD + f"spark: {{master: '{master}', master_ui: 'http://one:8080'}}\n"
    if not master.startswith("k8s:"):
        assert load(written(tmp_path, text)).settings.spark.master_ui == "http://one:8080"
    else:
        (mistake,) = mistakes_of(tmp_path, text)
        assert mistake == f"spark: master_ui needs a standalone master or YARN, but master is {master}: remove it"


@pytest.mark.parametrize(("address", "wrong"), [("rm:8088", "rm:8088"), ("http://a:1,,http://b:1", "http://a:1,,http")])
def test_a_cluster_manager_is_named_by_web_addresses(tmp_path: Path, address: str, wrong: str) -> None:
    (mistake,) = mistakes_of(tmp_path, GOOD + f"spark: {{master_ui: '{address}'}}\n")
    assert mistake.startswith(f"spark.master_ui: {wrong}")
    assert "begin it with http:// or https://" in mistake


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a\n",
        "a: [\n",
        "a: b: c\n",
        "a: !!python/object:os.system {}\n",
        "a: !!int b\n",
        "a: &a [*a]\n",
        "[" * 5000,
    ],
)
def test_a_configuration_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
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
    with pytest.raises(ConfigError, match="-c names no file"):
        locate("", {})
    assert locate(None, {"TIDEOVER_CONFIG": ""}) == path


def test_a_file_beside_a_mounted_configuration_is_found_in_its_next_version(tmp_path: Path) -> None:
    mount = tmp_path / "etc"
    sasl = "{protocol: SASL_PLAINTEXT, sasl: {mechanism: PLAIN, username: u, password: file:word}}"
    text = GOOD.replace("[localhost:19092]}", f"[localhost:19092], security: {sasl}}}")
    for version, word in (("..2026_1", "swordfish"), ("..2026_2", "herring")):  # as Kubernetes mounts it
        (mount / version).mkdir(parents=True)
        (mount / version / "tideover.yaml").write_text(text, encoding="utf-8")
        (mount / version / "word").write_text(word, encoding="utf-8")
    (mount / "..data").symlink_to("..2026_1")
    for name in ("tideover.yaml", "word"):
        (mount / name).symlink_to(f"..data/{name}")

    loaded = load(mount / "tideover.yaml", {})
    (mount / "..new").symlink_to("..2026_2")
    (mount / "..new").replace(mount / "..data")
    shutil.rmtree(mount / "..2026_1")

    assert loaded.path == mount / "tideover.yaml"
    found = loaded.settings.clusters["east"].security.sasl
    assert isinstance(found, Password)
    assert reveal(found.password) == "herring"
    assert loaded.settings.store.get_secret_value() == f"sqlite:///{mount}/var/tideover.db"
    assert loaded.settings.queries["revenue"].checkpoint == str(mount / "var/revenue")


def test_a_configuration_has_one_place_by_whatever_name_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "srv").mkdir()
    (tmp_path / "etc").mkdir()
    path = written(tmp_path / "srv", GOOD)
    (tmp_path / "etc" / "tideover.yaml").symlink_to("../srv/tideover.yaml")
    (tmp_path / "link").symlink_to("srv")
    monkeypatch.chdir(tmp_path / "etc")
    for name in ("tideover.yaml", "../srv/tideover.yaml", tmp_path / "link" / "tideover.yaml"):
        assert locate(name, {}) == path


def test_the_masked_dump_writes_durations_as_the_file_does(tmp_path: Path) -> None:
    shown = masked(load(written(tmp_path, GOOD)).settings)
    assert shown["detection"] == {"interval": "500ms", "timeout": "1s", "failures": 3}
    assert shown["routes"][0]["from"] == "east"  # type: ignore[index] # plain JSON


def test_a_query_with_one_policy_of_its_own_keeps_the_common_rest(tmp_path: Path) -> None:
    text = GOOD + "    policy: {automatic: true}\npolicy: {max_exposure: 10s, cooldown: 2h}\n"
    settings = load(written(tmp_path, text), {}).settings
    own = settings.policy_of("revenue")
    assert (own.automatic, own.max_exposure.total_seconds(), own.cooldown.total_seconds()) == (True, 10, 7200)
    assert not settings.policy.automatic


def test_a_query_with_one_timeline_key_of_its_own_keeps_the_common_rest(tmp_path: Path) -> None:
    text = GOOD + "    timeline: {step: 1s}\ntimeline: {keep: 48h}\n"
    settings = load(written(tmp_path, text), {}).settings
    own = settings.timeline_of("revenue")
    assert (own.step.total_seconds(), own.keep.total_seconds()) == (1, 48 * 3600)
    assert settings.timeline.step.total_seconds() == 60


def test_a_cooldown_that_would_be_forgotten_is_a_mistake(tmp_path: Path) -> None:
    text = GOOD + "    policy: {cooldown: 91d}\npolicy: {cooldown: 2d}\nretention: {history: 36h, operations: 1}\n"
    assert mistakes_of(tmp_path, text) == (
        "policy.cooldown: 2d is longer than retention.history, which keeps operations",
        "queries.revenue.policy.cooldown: 91d is longer than retention.history, which keeps operations",
    )
    alone = mistakes_of(tmp_path, GOOD + "policy: {cooldown: 91d}\n")
    assert alone == ("policy.cooldown: 91d is longer than retention.history, which keeps operations",)
    kept = load(written(tmp_path, GOOD + "policy: {cooldown: 90d}\n")).settings.retention
    assert (kept.history.days, kept.operations) == (90, 20)


@pytest.mark.parametrize("text", ["history: 23h", "history: 40000d", "operations: 0", "history: for ever"])
def test_nothing_is_forgotten_at_once(tmp_path: Path, text: str) -> None:
    (mistake,) = mistakes_of(tmp_path, GOOD + f"retention: {{{text}}}\n")
    assert mistake.startswith(f"retention.{text.partition(':')[0]}: ")


def another(name: str, checkpoint: str) -> str:
    """A second query, with a checkpoint of its own."""
    given = "pipeline: 'a:b', sources: {o: {topics: [o]}}, clusters: [east, west], runners: [a]"
    return f"  {name}: {{{given}, checkpoint: '{checkpoint}'}}\n"


@pytest.mark.parametrize(
    ("inner", "outer"), [("hdfs://b/cp/./x//y/", "hdfs://b/cp/x"), ("hdfs://b/cp/x/y", "hdfs://b/cp/./x/")]
)
def test_a_checkpoint_inside_another_querys_is_a_mistake(tmp_path: Path, inner: str, outer: str) -> None:
    assert mistakes_of(tmp_path, GOOD + another("b", outer) + another("c", inner)) == (
        "queries.c.checkpoint: it is inside that of query 'b', hdfs://b/cp/x",
    )
    assert mistakes_of(tmp_path, GOOD + another("b", inner) + another("c", outer)) == (
        "queries.c.checkpoint: that of query 'b', hdfs://b/cp/x/y, is inside it",
    )


def test_one_thing_in_two_spellings_is_one_mistake(tmp_path: Path) -> None:
    """Each line is one mistake, and it is reported once: of a route it is not repeated for the queries behind it."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name, text, mistake in (
        ("checkpoint", GOOD + another("b", f"file://{tmp_path}/x/../var//revenue/"),
         "queries.b.checkpoint: it is already that of query 'revenue'"),
        ("link", GOOD.replace("var/revenue", "real/r") + another("b", f"file://{tmp_path}/link/r"),
         "queries.b.checkpoint: it is already that of query 'revenue'"),
        ("store", GOOD.replace("var/revenue", "s3a://b/cp") + another("b", "s3://B/cp/"),
         "queries.b.checkpoint: it is already that of query 'revenue'"),
        ("server", GOOD.replace("[localhost:29092]", "[w:1, LOCALHOST:19092]"),
         "clusters.west.bootstrap: localhost:19092 is already a server of cluster 'east'"),
        ("route", GOOD.replace("to: west}", "to: west, topics: {orders: all, refunds: all}}").replace(
            "topics: [orders]", "topics: [orders, refunds]"),
         "routes.0.topics: 'orders' and 'refunds' are both named 'all': each topic needs a name of its own"),
        ("query", GOOD.replace("to: west}", "to: west, topics: {orders: all}}").replace(
            "topics: [orders]", "topics: [orders, all]"),
         "queries.revenue.sources: 'orders' and 'all' are both named 'all' on west"),
        ("topic", GOOD.replace("topics: [orders]", "topics: [orders, orders]"),
         "queries.revenue.sources.orders.topics: 'orders' is named twice"),
    ):  # fmt: skip
        found = [each for each in mistakes_of(tmp_path, text) if " is on s3, " not in each]
        assert found == [mistake], name


def test_checkpoints_side_by_side_are_no_mistake(tmp_path: Path) -> None:
    """One name may begin with another, and two stores may have the same path."""
    text = GOOD + another("b", "var/revenue2") + another("c", "hdfs://var/revenue") + another("d", "hdfs://v")
    assert set(load(written(tmp_path, text)).settings.queries) == {"revenue", "b", "c", "d"}


@pytest.mark.parametrize(
    "key", ["spark.hadoop.ldap.passwd", "spark.hadoop.fs.azure.account.key.x", "spark.ssl.keystore.key"]
)
def test_a_key_read_as_a_secret_is_masked_as_one(tmp_path: Path, key: str) -> None:
    text = GOOD + f"spark: {{conf: {{{key}: env:KEY}}}}\n"
    settings = load(written(tmp_path, text), {"KEY": "hush"}).settings
    assert settings.spark.conf[key] == "hush"
    assert "hush" not in json.dumps(masked(settings))


def test_a_clusters_id_is_the_one_that_kafka_prints(tmp_path: Path) -> None:
    text = GOOD.replace("[localhost:19092]}", "[localhost:19092], id: MkU3OEVBNTcwNTJENDM2Qg}")
    assert load(written(tmp_path, text)).settings.clusters["east"].id == "MkU3OEVBNTcwNTJENDM2Qg"
    for wrong in ("east", "MkU3OEVBNTcwNTJENDM2Q", "MkU3OEVBNTcwNTJENDM2Qg=", "'MkU3OEVBNTcwNTJENDM2Q+'"):
        (mistake,) = mistakes_of(tmp_path, text.replace("MkU3OEVBNTcwNTJENDM2Qg", wrong))
        assert mistake == (
            f"clusters.east.id: {wrong.strip(chr(39))!r} is not a cluster's id: the 22 characters that "
            "kafka-cluster.sh cluster-id prints"
        )


def test_switch_refuses_a_setting_that_keeps_the_companion_out(tmp_path: Path) -> None:
    good = GOOD.replace("    checkpoint: var/revenue\n", "    checkpoint: var/revenue\n    resume: switch\n")
    assert load(written(tmp_path, good), {}).settings.queries["revenue"].resume is Resume.SWITCH
    assert mistakes_of(
        tmp_path, good.replace("queries:", "spark: {conf: {spark.hadoop.fs.file.impl: mine}}\nqueries:")
    ) == ("queries.revenue.resume: switch needs the companion, and spark.hadoop.fs.file.impl keeps it out of Spark",)


def test_offsets_of_home_need_the_companion(tmp_path: Path) -> None:
    wanted = GOOD.replace("    checkpoint: var/revenue\n", "    checkpoint: var/revenue\n    home_offsets: true\n")
    assert load(written(tmp_path, wanted), {}).settings.queries["revenue"].home_offsets
    for resume in ("carry", "fresh"):
        assert mistakes_of(
            tmp_path, wanted.replace("home_offsets: true", f"home_offsets: true\n    resume: {resume}")
        ) == (f"queries.revenue.home_offsets: only resume: switch continues offsets from home, not {resume}",)


def test_an_order_of_queries_names_others_and_is_no_circle(tmp_path: Path) -> None:
    others = "".join(GOOD.partition("  revenue:\n")[2].join([f"  {name}:\n", ""]) for name in ("a", "b", "c"))
    others = others.replace("var/revenue", "var/{}")
    for name in ("a", "b", "c"):
        others = others.replace("var/{}", f"var/{name}", 1)
    after = {"a": "[b]", "b": "[c, c]", "c": "[a, nobody]"}
    for name, value in after.items():
        others = others.replace(f"checkpoint: var/{name}\n", f"checkpoint: var/{name}\n    after: {value}\n")
    assert sorted(mistakes_of(tmp_path, GOOD + "    after: [revenue]\n" + others)) == [
        "queries.a.after: a circle, so none of them could be moved: a after b after c after a",
        "queries.b.after: query 'c' is named twice",
        "queries.c.after: query 'nobody' is not declared",
        "queries.revenue.after: the query names itself",
    ]
    assert load(written(tmp_path, GOOD + others.replace("[a, nobody]", "[]").replace("[c, c]", "[c]"))).settings


PROXY = "or set behind_proxy: true, if a proxy on the way encrypts"
ANNA = "{name: anna, role: operator, token: env:A}"
SHORT = "needs 20 to 512 printable ASCII characters and no blanks, such as openssl rand -hex 24 prints"


OF_A_RUNNER = "runner: name the runner or application for the role runner, and for no other role"


@pytest.mark.parametrize(
    ("http", "mistakes"),
    [
        ("{tokens: [{name: n, role: viewer, token: env:A}]}",
         ["http: beside tokens and tls, listen is required, such as 127.0.0.1:8340; or off"]),
        ("{listen: '0.0.0.0:1'}",
         ["http.tokens: is required, because other hosts reach 0.0.0.0:1",
          f"http.tls: is required, because other hosts reach 0.0.0.0:1; {PROXY}"]),
        ("{listen: '127.0.0.1.nip.io:1', behind_proxy: true}",
         ["http.tokens: is required, because other hosts reach 127.0.0.1.nip.io:1"]),
        (f"{{listen: 'localhost:1', tokens: [{ANNA}, {ANNA}]}}",
         ["http.tokens.1.name: http.tokens.0 has it already", "http.tokens.1.token: http.tokens.0 has it already"]),
        ("{listen: 'localhost:1', tokens: [{name: n, role: viewer, token: env:SHORT}]}",
         [f"http.tokens.0.token: {SHORT}"]),
        ("{listen: 'localhost:1', tokens: [{name: n, role: admin, token: env:A}], tls: {cert: no.pem}}",
         ["http.tls.cert: {folder}/no.pem is not a file",
          "http.tokens.0.role: must be 'viewer', 'operator' or 'runner'",
          "http.tls.key: is required"]),
        ("on", ["http: must be a group of keys"]),
        ("{listen: 'localhost:1', tokens: [{name: n, role: runner, token: env:A}]}", [f"http.tokens.0: {OF_A_RUNNER}"]),
        ("{listen: 'localhost:1', tokens: [{name: n, role: viewer, runner: a, token: env:A}]}",
         [f"http.tokens.0: {OF_A_RUNNER}"]),
        ("{listen: 'localhost:1', tokens: [{name: n, role: runner, runner: b, token: env:A}]}",
         ["http.tokens.0.runner: 'b' is not declared"]),
    ],
)  # fmt: skip
def test_mistakes_of_http_come_together(tmp_path: Path, http: str, mistakes: list[str]) -> None:
    found = mistakes_of(tmp_path, GOOD + f"http: {http}\n", {"A": "0123456789abcdef01234", "SHORT": "a" * 19})
    assert sorted(found) == sorted(mistake.format(folder=tmp_path) for mistake in mistakes)


EXTERNAL = (
    "application: {start: [systemctl, start, 'shop@{cluster}'], stop: [systemctl, stop, shop], "
    "status: [systemctl, is-active, shop]}"
)


def test_a_query_may_be_that_of_an_application_with_commands(tmp_path: Path) -> None:
    text = GOOD.replace("pipeline: examples.orders:revenue", EXTERNAL)
    query = load(written(tmp_path, text)).settings.queries["revenue"]
    assert query.application is not None
    assert query.application.start == ("systemctl", "start", "shop@{cluster}")
    assert (query.resume_with(companion=False), query.runners) == (Resume.SWITCH, ("a",))


@pytest.mark.parametrize(
    ("change", "mistakes"),
    [
        ({"shop@{cluster}": "shop"}, ["queries.revenue.application: start: give it {bootstrap} or {cluster}, else"]),
        ({"stop: [systemctl, stop, shop]": "stop: []"}, ["queries.revenue.application.stop: "]),
        ({"runners: [a]": "runners: [a]\n    attach: a"},
         ["queries.revenue: name one of pipeline, attach and application"]),
        ({"    runners: [a]\n": ""}, ["queries.revenue: runners: name at least one"]),
        ({"runners: [a]": "runners: [a]\n    resume: carry\n    trigger: 1s"},
         ["queries.revenue: trigger: remove it, because the application decides that itself",
          "queries.revenue: resume: an application keeps its checkpoint, so only switch is possible, not carry"]),
    ],
)  # fmt: skip
def test_mistakes_of_an_application_with_commands_are_named(
    tmp_path: Path, change: dict[str, str], mistakes: list[str]
) -> None:
    text = GOOD.replace("pipeline: examples.orders:revenue", EXTERNAL)
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    found = mistakes_of(tmp_path, text)
    assert len(found) == len(mistakes)
    for said, wanted in zip(found, mistakes, strict=True):
        assert said.startswith(wanted)


COUNTS = GOOD.partition("queries:\n")[2].replace("revenue", "counts").replace("orders:counts", "orders:revenue")
SHARED = f"{GOOD}{COUNTS}".replace("pipeline: examples.orders:revenue", "application: shop") + (
    f"applications: {{shop: {EXTERNAL.removeprefix('application: ')}}}\n"
)


def test_queries_may_share_an_application_that_is_declared_once(tmp_path: Path) -> None:
    settings = load(written(tmp_path, SHARED)).settings
    assert (settings.companions("revenue"), settings.companions("counts")) == (("counts",), ("revenue",))
    application = settings.queries["counts"].application
    assert application is not None
    assert (application.name, application.stop) == ("shop", ("systemctl", "stop", "shop"))
    assert type(settings).model_validate(settings.model_dump(by_alias=True, exclude_unset=True)) == settings


@pytest.mark.parametrize(
    ("old", "new", "mistakes"),
    [
        ("{shop: {", "{store: {",
         ["queries.revenue.application: 'shop' is not declared under applications",
          "queries.counts.application: 'shop' is not declared under applications",
          "applications.store: no query names it"]),
        ("stop: [systemctl, stop, shop]", "stop: []", ["applications.shop.stop: "]),
        ("'shop@{cluster}'", "'shop@{cluster}@{query}'",
         ["applications.shop.start: {query} is of one query, and an application may have several"]),
        ("checkpoint: var/counts\n", "checkpoint: var/counts\n    after: [revenue]\n",
         ["queries.counts.after: application shop has revenue too, and its queries move together"]),
        ("applications:", "x: {}\napplications:", ["x: no such key"]),
    ],
)  # fmt: skip
def test_mistakes_of_a_shared_application_are_named_once(
    tmp_path: Path, old: str, new: str, mistakes: list[str]
) -> None:
    assert old in SHARED
    found = mistakes_of(tmp_path, SHARED.replace(old, new))
    assert len(found) == len(mistakes), found
    for said, wanted in zip(sorted(found), sorted(mistakes), strict=True):
        assert said.startswith(wanted)


def test_queries_of_one_application_have_one_runner_and_the_same_clusters(tmp_path: Path) -> None:
    head, _, rest = SHARED.rpartition("clusters: [east, west]")
    found = mistakes_of(tmp_path, f"{head}clusters: [west, east]{rest}")
    assert found == ("queries.counts.clusters: must be as those of revenue, because application shop has both queries",)


def test_commands_that_are_typed_for_two_queries_are_a_mistake(tmp_path: Path) -> None:
    text = f"{GOOD}{COUNTS}".replace("pipeline: examples.orders:revenue", EXTERNAL)
    (mistake,) = mistakes_of(tmp_path, text)
    assert mistake.startswith("queries.counts.application: stops what queries.revenue.application stops: declare it ")


CONTROLLER = "controller: {urls: ['https://control:8340', 'http://127.0.0.1:1'], token: 'file:token', ca: ca.pem}"


def without_store(tmp_path: Path, controller: str = CONTROLLER) -> str:
    (tmp_path / "token").write_text("runner-0123456789abcdef\n", encoding="utf-8")
    (tmp_path / "ca.pem").write_text("", encoding="utf-8")
    return GOOD.replace("store: sqlite:///var/tideover.db", controller)


def test_a_runner_may_have_the_controllers_in_place_of_the_store(tmp_path: Path) -> None:
    settings = load(written(tmp_path, without_store(tmp_path))).settings
    assert settings.controller is not None
    assert reveal(settings.controller.token) == "runner-0123456789abcdef"
    (tmp_path / "token").write_text("another-0123456789abcdef", encoding="utf-8")
    assert reveal(settings.controller.token) == "another-0123456789abcdef"
    shown = masked(settings)
    assert "store" not in shown
    assert json.loads(json.dumps(shown))["controller"] == {
        "urls": ["https://control:8340", "http://127.0.0.1:1"], "token": MASK, "ca": str(tmp_path / "ca.pem"),
        "cert": None, "key": None,
    }  # fmt: skip


def test_mistakes_of_the_controllers_of_a_runner_come_together(tmp_path: Path) -> None:
    urls = "'http://control:8340', 'https://a@b', 'control:8340', 'https://h:99999'"
    text = without_store(tmp_path, f"controller: {{urls: [{urls}], token: runner-0123456789abcdef, ca: none.pem}}")
    mistakes = mistakes_of(tmp_path, text)
    assert sorted(mistakes) == [
        f"controller.ca: {tmp_path}/none.pem is not a file",
        "controller.token: do not write a secret here; give it as env:NAME or file:PATH",
        "controller.urls.0: 'http://control:8340' would send the token unencrypted to another host: use https",
        "controller.urls.1: 'https://a@b' is not https://host:port",
        "controller.urls.2: 'control:8340' is not https://host:port",
        "controller.urls.3: 'h:99999' is not host:port",
    ]
    both = without_store(tmp_path) + "store: sqlite:///var/tideover.db\n"
    (mistake,) = mistakes_of(tmp_path, both)
    assert mistake.startswith("controller: leave it out beside store")
    assert mistakes_of(tmp_path, without_store(tmp_path, "")) == ("store: is required",)


@pytest.mark.parametrize("listen", ["localhost:1", "127.9.0.255:1", "[::1]:1"])
def test_loopback_needs_neither_tokens_nor_tls(tmp_path: Path, listen: str) -> None:
    assert load(written(tmp_path, GOOD + f"http: {{listen: '{listen}'}}\n")).settings.http.is_on


def test_a_token_of_few_different_letters_is_refused(tmp_path: Path) -> None:
    text = GOOD + 'http: {listen: "127.0.0.1:9180", tokens: [{name: a, role: viewer, token: "env:T"}]}\n'
    assert load(written(tmp_path, text), {"T": "0123456789abcdef01234567"}).settings.http.tokens
    for weak in ("a" * 20, "abcabcabcabcabcabcabcabc"):
        (mistake,) = mistakes_of(tmp_path, text, {"T": weak})
        assert mistake.startswith("http.tokens.0.token: has ")


def test_a_secret_file_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    text = GOOD + 'http: {listen: "127.0.0.1:9180", tokens: [{name: a, role: viewer, token: "file:token"}]}\n'
    file = tmp_path / "token"
    file.write_text("0123456789abcdef01234567")
    file.chmod(0o666)
    (mistake,) = mistakes_of(tmp_path, text)
    assert mistake.endswith(f"so its content proves nothing; run chmod 600 {file}")
    file.chmod(0o600)
    assert load(written(tmp_path, text), {}).settings.http.tokens


def test_aliases_that_stand_for_too_much_are_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    for bomb in ("\n".join(lines), "a: &a [*a]", "a: &a {b: *a}"):
        with pytest.raises(ConfigError, match="its aliases stand for more than 200,000 values"):
            load(written(tmp_path, GOOD + bomb), {})


def test_a_mistake_of_an_endpoint_comes_once_with_its_own_path(tmp_path: Path) -> None:
    ids = {"east": "MkU3OEVBNTcwNTJENDM2Qk", "west": "wqdOq6wzRZ-2n0jlXKGl6g"}
    clusters = GOOD[GOOD.index("clusters:") : GOOD.index("routes:")]
    good = GOOD.replace(clusters, f"clusters: {{dr: {{bootstrap: [dr:9092], ids: {json.dumps(ids)}}}}}\n")
    assert list(load(written(tmp_path, good), {}).settings.clusters) == ["east", "west"]
    assert names("clusters", tmp_path / "tideover.yaml") == ["east", "west"]
    found = mistakes_of(tmp_path, good.replace("[dr:9092]", "[dr]").replace("wqdOq6wzRZ-2n0jlXKGl6g", "no id"))
    assert [each.partition(": ")[0] for each in found] == ["clusters.dr.bootstrap.0", "clusters.dr.ids.west"], found
