"""A conversation with PostgreSQL that ends at a limit, without PostgreSQL."""

import math

import psycopg
import pytest
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

from state.store.sql.postgres_deadline import bounded


def three_parts(closed: list[bool]) -> PQGen[str]:
    """Waits to send and then to read, until both are possible."""
    try:
        while not (sent := (yield Wait.W)):
            pass
        while not (read := (yield Wait.R)):
            pass
        return f"{sent:d} {read:d}"
    finally:
        closed.append(True)


def test_a_conversation_within_the_limit_is_the_same_one() -> None:
    conversation = bounded(three_parts([]), math.inf)
    assert next(conversation) is Wait.W
    assert conversation.send(Ready.NONE) is Wait.W
    assert conversation.send(Ready.W) is Wait.R
    with pytest.raises(StopIteration) as ended:
        conversation.send(Ready.R)
    assert ended.value.value == f"{Ready.W:d} {Ready.R:d}"


def test_a_conversation_is_closed_at_its_time_limit() -> None:
    closed: list[bool] = []
    conversation = bounded(three_parts(closed), 0.0)
    next(conversation)
    conversation.send(Ready.W)
    with pytest.raises(psycopg.OperationalError, match="has not answered for 0 seconds"):
        conversation.send(Ready.NONE)
    assert closed


def test_an_answer_that_is_there_counts_however_late() -> None:
    conversation = bounded(three_parts([]), 0.0)
    next(conversation)
    conversation.send(Ready.W)
    with pytest.raises(StopIteration):
        conversation.send(Ready.R)
