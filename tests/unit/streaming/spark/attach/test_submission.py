"""A command line of spark-submit keeps what the user has, and gets what is ours."""

from itertools import pairwise
from pathlib import Path

import pytest

from streaming.spark.attach.submission import PLUGIN, defaults_of, parse_submit, read_properties, with_attachment

JAR = Path("/t/companion.jar")


def attached(*command: str, defaults: dict[str, str] | None = None) -> list[str]:
    made = with_attachment(parse_submit(command), jar=JAR, settings={"spark.tideover.config": "/t.yaml"},
                           defaults=defaults or {})  # fmt: skip
    return list(made)


def value_of(line: list[str], option: str) -> list[str]:
    return [after for word, after in pairwise(line) if word == option]


def test_the_job_and_its_own_arguments_stay_as_they_were_typed() -> None:
    line = attached("spark-submit", "--master", "yarn", "--verbose", "job.py", "--jars", "mine", "--conf")
    assert line[-4:] == ["job.py", "--jars", "mine", "--conf"]
    assert line[:4] == ["spark-submit", "--master", "yarn", "--verbose"]


@pytest.mark.parametrize(
    ("typed", "defaults", "jars"),
    [
        ((), {}, "/t/companion.jar"),
        (("--jars", "a.jar"), {"spark.jars": "d.jar"}, "a.jar,/t/companion.jar"),
        (("--jars=a.jar, b.jar",), {}, "a.jar,b.jar,/t/companion.jar"),
        (("--conf", "spark.jars=c.jar"), {"spark.jars": "d.jar"}, "c.jar,/t/companion.jar"),
        (("--conf", "spark.jars=c.jar", "--jars", "a.jar"), {}, "a.jar,/t/companion.jar"),
        ((), {"spark.jars": "d.jar"}, "d.jar,/t/companion.jar"),
        (("--jars", "/t/companion.jar"), {}, "/t/companion.jar"),
        (("--conf", "spark.jars="), {"spark.jars": "d.jar"}, "/t/companion.jar"),
    ],
)
def test_jars_are_added_to_those_that_spark_would_take(
    typed: tuple[str, ...], defaults: dict[str, str], jars: str
) -> None:
    assert value_of(attached("spark-submit", *typed, "job.py", defaults=defaults), "--jars") == [jars]


@pytest.mark.parametrize(
    ("typed", "defaults", "plugins"),
    [
        ((), {}, PLUGIN),
        (("--conf", "spark.plugins=a.B", "-c", "spark.plugins=c.D"), {"spark.plugins": "e.F"}, f"c.D,{PLUGIN}"),
        (("--conf=spark.plugins=a.B",), {}, f"a.B,{PLUGIN}"),
        ((), {"spark.plugins": "e.F"}, f"e.F,{PLUGIN}"),
        (("--conf", f"spark.plugins={PLUGIN}"), {}, PLUGIN),
    ],
)
def test_the_plugin_is_added_to_those_that_spark_would_take(
    typed: tuple[str, ...], defaults: dict[str, str], plugins: str
) -> None:
    line = attached("spark-submit", *typed, "job.py", defaults=defaults)
    ours = [each for each in value_of(line, "--conf") if each.startswith("spark.plugins=")]
    assert ours == [f"spark.plugins={plugins}"]
    assert "spark.tideover.config=/t.yaml" in value_of(line, "--conf")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ((), "no command to start"),
        (("spark-submit", "--master"), "--master has no value"),
        (("spark-submit", "--master", "yarn"), "no application after the options"),
    ],
)
def test_a_command_line_that_starts_nothing_is_refused(command: tuple[str, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_submit(command)


def test_the_name_and_the_place_of_the_driver_are_read() -> None:
    typed = parse_submit(["spark-submit", "--name", "shop", "--conf", "spark.submit.deployMode=cluster", "job.py"])
    assert (typed.application, typed.is_cluster({}, {})) == ("shop", True)
    typed = parse_submit(["spark-submit", "--deploy-mode", "client", "-c", "spark.app.name=x=y", "job.py"])
    assert (typed.application, typed.is_cluster({"spark.submit.deployMode": "cluster"}, {})) == ("x=y", False)
    typed = parse_submit(["spark-submit", "job.py"])
    assert typed.is_cluster({"spark.submit.deployMode": "cluster"}, {})
    assert typed.is_cluster({}, {"DEPLOY_MODE": "cluster"})
    assert not typed.is_cluster({"spark.submit.deployMode": "client"}, {"DEPLOY_MODE": "cluster"})


def test_a_file_of_defaults_is_read_as_properties() -> None:
    text = "# spark.jars c\n\nspark.jars   a.jar,b.jar  \nspark.plugins=a.B\nspark.app.name : shop\n! no\nspark.empty\n"
    assert read_properties(text) == {
        "spark.jars": "a.jar,b.jar", "spark.plugins": "a.B", "spark.app.name": "shop", "spark.empty": "",
    }  # fmt: skip


def test_the_files_of_defaults_are_those_that_spark_reads() -> None:
    plain, named = parse_submit(["s", "j.py"]), parse_submit(["s", "--properties-file", "/p", "j.py"])
    both = parse_submit(["s", "--load-spark-defaults", "--properties-file", "/p", "j.py"])
    assert defaults_of(plain, {}) == ()
    assert defaults_of(plain, {"SPARK_HOME": "/s"}) == (Path("/s/conf/spark-defaults.conf"),)
    assert defaults_of(plain, {"SPARK_HOME": "/s", "SPARK_CONF_DIR": "/c"}) == (Path("/c/spark-defaults.conf"),)
    assert defaults_of(named, {"SPARK_CONF_DIR": "/c"}) == (Path("/p"),)
    assert defaults_of(both, {"SPARK_CONF_DIR": "/c"}) == (Path("/p"), Path("/c/spark-defaults.conf"))
    assert defaults_of(both, {}) == (Path("/p"),)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("spark.jars a.jar,\\\n   b.jar\nspark.x y", {"spark.jars": "a.jar,b.jar", "spark.x": "y"}),
        ("spark.jars a.jar,\\\r\n\tb.jar", {"spark.jars": "a.jar,b.jar"}),
        ("spark.path C:\\\\\\\\x\nspark.x y", {"spark.path": "C:\\\\x", "spark.x": "y"}),
        ("# no \\\nspark.x y", {"spark.x": "y"}),
        ("spark.x a\\\n#b", {"spark.x": "a#b"}),
        ("spark\\:x = \\u0041\\t.", {"spark:x": "A\t."}),
        ("spark.x a\nspark.x b", {"spark.x": "b"}),
        ("spark.x a\\", {"spark.x": "a"}),
    ],
)
def test_lines_are_continued_and_escaped_as_java_does_it(text: str, found: dict[str, str]) -> None:
    """Compared with ``java.util.Properties`` on 3,000 random texts when it was written."""
    assert read_properties(text) == found


def test_a_file_that_java_refuses_is_refused_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"line 2: \\u00zz is no character"):
        read_properties("spark.x y\nspark.z \\u00zz")
