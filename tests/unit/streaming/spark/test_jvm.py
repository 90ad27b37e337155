"""What a person reads of an error in a Python worker: the line that says what was raised, and where."""

import pytest
from py4j.java_collections import ListConverter, MapConverter, SetConverter

from streaming.spark.jvm import joined_view, one_line, worker_error, worker_trace

TRACE = """Traceback (most recent call last):
  File "/srv/pipelines/shop.py", line 9, in price
    return prices[customer]
KeyError: 7

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/spark/python/pyspark/worker.py", line 1100, in main
    process()
  File "/srv/pipelines/shop.py", line 12, in price
    raise ValueError("no such customer")
ValueError: no such customer
its number was 7
"""
MESSAGE = (
    f"\n  An exception was thrown from the Python worker. Please see the stack trace below.\n{TRACE} SQLSTATE: 38000"
)


def test_the_last_error_of_a_workers_traceback_is_named_with_its_place() -> None:
    assert worker_error(MESSAGE) == "ValueError: no such customer (Python worker, shop.py:12)"
    assert one_line("PythonException", MESSAGE) == worker_error(MESSAGE)


def test_the_whole_traceback_is_kept_for_the_log() -> None:
    assert worker_trace(MESSAGE) == TRACE.rstrip()


@pytest.mark.parametrize("message", ["", "no such customer", "Traceback (most recent call last):\n  cut off"])
def test_a_message_without_a_traceback_is_shown_unchanged(message: str) -> None:
    assert worker_error(message) is None
    assert one_line("Error", message).startswith("Error")


@pytest.mark.parametrize("is_pinned", [True, False])
def test_a_driver_is_joined_without_the_converters_that_load_numpy(is_pinned: bool) -> None:
    view = joined_view(25333, "secret", is_pinned=is_pinned)
    kinds = [type(each) for each in view._gateway_client.converters]
    assert kinds == [SetConverter, MapConverter, ListConverter]
