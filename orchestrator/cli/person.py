"""The person at the terminal: who it is, whether one is there, and what is asked before something is changed."""

import getpass
import os
import socket
import sys

import click

from orchestrator.errors import Refused

_NO_ANSWER = "the question was left without an answer: nothing was changed"


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


def ask_yes(question: str) -> None:
    """Return when the answer is yes. Raises ``Refused``."""
    try:
        if click.confirm(question, err=True):
            return
    except click.Abort:
        raise Refused(_NO_ANSWER) from None
    raise Refused("the answer was no: nothing was changed")


def ask_to_type(word: str, question: str) -> None:
    """Return when the person types the word, so that it is not given in passing. Raises ``Refused``."""
    try:
        typed = click.prompt(f"{question} Type {word!r} to accept", err=True)
    except click.Abort:
        raise Refused(_NO_ANSWER) from None
    if typed != word:
        raise Refused(f"{word!r} was not typed: nothing was changed")
