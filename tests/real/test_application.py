"""A Spark application that ends inside a living JVM, and a JVM that does not answer: a runner notices both."""

import signal
import threading
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from streaming.spark.errors import SparkMissing
from streaming.spark.jvm import has_stopped, java_context, jvm_has_ended
from streaming.spark.query.query_run import unfinished
from streaming.spark.query.session import Liveness
from tests.jars import connector_jars
from tests.waiting import PROCESS_SECONDS, until

pytestmark = pytest.mark.real


def test_an_application_that_has_ended_in_a_living_jvm_is_noticed() -> None:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": connector_jars(),  # the first session of a process settles which jars its JVM has
    }
    session = SparkSession.builder.master("local[1]").config(map={**settings}).getOrCreate()
    ended, over = threading.Event(), threading.Event()
    try:
        liveness = Liveness(lambda: has_stopped(session))
        liveness.begin(ended.set, over)
        assert not ended.wait(2.5)
        java = cast("Any", SparkContext._gateway).proc
        java.send_signal(signal.SIGSTOP)
        until(lambda: liveness.silence() > 2.0)
        java.send_signal(signal.SIGCONT)
        until(lambda: liveness.silence() == 0.0)
        assert not ended.is_set()
        java_context(session).stop()
        assert ended.wait(PROCESS_SECONDS)
        assert not jvm_has_ended()
        with pytest.raises(SparkMissing, match="has ended"):
            unfinished(session, "a run")
    finally:
        over.set()
        session.stop()
