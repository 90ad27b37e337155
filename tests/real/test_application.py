"""A Spark application that ends inside a living JVM: its runner would host nothing any more, and never say so."""

import threading

import pytest
from pyspark.sql import SparkSession

from streaming.spark.jvm import java_context, jvm_has_ended
from streaming.spark.run import active_tasks
from streaming.spark.run_errors import SparkMissing
from streaming.spark.service import watch_application
from tests.jars import connector_jars

pytestmark = pytest.mark.real


def test_an_application_that_has_ended_in_a_living_jvm_is_noticed() -> None:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": connector_jars(),  # the first session of a process settles which jars its JVM has
    }
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    ended, over = threading.Event(), threading.Event()
    try:
        watch_application(session, ended.set, over)
        assert not ended.wait(2.5)
        java_context(session).stop()
        assert ended.wait(10)
        assert not jvm_has_ended()
        with pytest.raises(SparkMissing, match="has ended"):
            active_tasks(session, "a run")
    finally:
        over.set()
        session.stop()
