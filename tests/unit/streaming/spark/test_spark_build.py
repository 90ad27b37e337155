"""Why the companion does not serve a Spark: its jar is not there, or Java cannot load it."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError

from streaming.spark.jvm import JavaObject, has_class
from streaming.spark.spark_build import probe_build

ABSENT = "java.lang.ClassNotFoundException"
BROKEN = "java.lang.ClassFormatError"
_SAID = f"{BROKEN}: Truncated class file"


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
        has_class(view_that_throws(BROKEN, _SAID), "a.B")


def test_a_jar_that_was_not_loaded_is_named() -> None:
    build = probe_build(view_that_throws(ABSENT, f"{ABSENT}: tideover.SparkBuild"))
    assert (build.manager, build.misfit) == ("", "its jar was not loaded into the JVM of this Spark")


def test_a_jar_that_java_cannot_load_is_named_with_its_error() -> None:
    build = probe_build(view_that_throws(BROKEN, f"{_SAID}\n\tat java.lang.ClassLoader"))
    assert (build.manager, build.misfit) == ("", _SAID)
