"""Why the companion does not serve a Spark: its jar is not there, or a Java that cannot load it."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError

from streaming.spark.jvm import JavaObject, has_class
from streaming.spark.spark_build import probe_build

ABSENT = "java.lang.ClassNotFoundException"
TOO_OLD = "java.lang.UnsupportedClassVersionError"
_SAID = (
    f"{TOO_OLD}: tideover/SparkBuild has been compiled by a more recent version of the Java Runtime (class file "
    "version 61.0), this version of the Java Runtime only recognizes class file versions up to 55.0"
)


class Thrown:
    """A throwable of Java, as py4j shows it."""

    _target_id = "o1"

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def getClass(self) -> SimpleNamespace:  # noqa: N802 - Java's name
        return SimpleNamespace(getName=lambda: self._name)

    def __str__(self) -> str:
        return self._text


def view_that_throws(name: str, text: str) -> JavaObject:
    """A JVM in which ``Class.forName`` throws."""

    def find(name_of_class: str, initialised: bool, loader: object) -> None:
        raise Py4JJavaError(f"An error occurred: {name_of_class}", thrown)

    thrown = Thrown(name, text)
    thread = SimpleNamespace(getContextClassLoader=lambda: None)
    lang = SimpleNamespace(Class=SimpleNamespace(forName=find), Thread=SimpleNamespace(currentThread=lambda: thread))
    return SimpleNamespace(java=SimpleNamespace(lang=lang))


def test_a_class_that_is_not_there_is_not_had_and_any_other_error_is_raised() -> None:
    assert not has_class(view_that_throws(ABSENT, f"{ABSENT}: a.B"), "a.B")
    with pytest.raises(Py4JJavaError):
        has_class(view_that_throws(TOO_OLD, _SAID), "a.B")


def test_a_jar_that_was_not_loaded_is_named() -> None:
    build = probe_build(view_that_throws(ABSENT, f"{ABSENT}: tideover.SparkBuild"))
    assert (build.manager, build.misfit) == ("", "its jar was not loaded into the JVM of this Spark")


def test_a_java_that_is_too_old_is_named_with_the_one_that_is_needed() -> None:
    build = probe_build(view_that_throws(TOO_OLD, f"{_SAID}\n\tat java.lang.ClassLoader"))
    assert build.manager == ""
    assert build.misfit == f"the Java of this Spark is too old for the companion, which needs Java 17 or newer: {_SAID}"
