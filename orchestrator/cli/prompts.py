"""The person at the terminal: who it is, whether one is there, and what is asked before something is changed.

What was begun and not answered: exit 3, not 2, since the store may have kept it.
"""

import getpass
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from orchestrator.errors import OutcomeUnknown, Refused, UsageError
from state.errors import StoreUnavailable

_NO_ANSWER = "the question was not answered: nothing was changed"


def this_person() -> str:
    """``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def is_attended() -> bool:
    """Whether somebody is there to answer a question; nobody is behind a closed stdin."""
    return sys.stdin is not None and sys.stdin.isatty()


def require_person(*, hint: str) -> None:
    """Return where somebody can answer a question. Raises ``UsageError``."""
    if not is_attended():
        raise UsageError("without a terminal, this command needs --yes", hint=hint)


def ask_yes(question: str) -> None:
    """Return when the answer is yes. Raises ``Refused``."""
    try:
        if click.confirm(question, err=True):
            return
    except click.Abort:
        raise Refused(_NO_ANSWER) from None
    raise Refused("you answered no: nothing was changed")


def ask_to_type(word: str, question: str) -> None:
    """Return when the person types the word, so that it is not given in passing. Raises ``Refused``."""
    try:
        typed = click.prompt(f"{question} Type {word!r} to accept", err=True)
    except click.Abort:
        raise Refused(_NO_ANSWER) from None
    if typed != word:
        raise Refused(f"you did not type {word!r}: nothing was changed")


@contextmanager
def unknown_if_lost(begun: str, *, hint: str) -> Iterator[None]:
    """Around a write and what is read after it. Raises ``OutcomeUnknown`` when the store is lost in it.

    Not for what is asked before: a store that was away then has got nothing, which is a failure like any other.
    """
    try:
        yield
    except StoreUnavailable as error:
        raise OutcomeUnknown(
            f"the store went away: {begun} may or may not have been saved: {error}", hint=hint
        ) from error
