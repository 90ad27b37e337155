"""Which commits changed code. What only a reader sees, comments and docstrings, changes no figure and no verdict."""

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from reports.errors import NoCommit
from reports.origin import git


def changing(root: Path, span: str, paths: Sequence[str]) -> list[str]:
    """The commits of a span, ``older..newer``, that changed code below these paths; the oldest first.

    Any change of a file that is not Python counts. Raises NoCommit.
    """
    touching = git(root, "rev-list", "--reverse", "--abbrev-commit", span, "--", *paths).split()
    return [commit for commit in touching if _changed(root, commit, tuple(paths))]


@cache
def _changed(root: Path, commit: str, paths: tuple[str, ...]) -> bool:
    named = git(root, "diff-tree", "--no-commit-id", "--name-only", "--no-renames", "-r", commit, "--", *paths)
    files = named.splitlines()
    if not all(file.endswith(".py") for file in files):
        return True
    return any(_code_in(root, f"{commit}^", file) != _code_in(root, commit, file) for file in files)


def _code_in(root: Path, commit: str, file: str) -> str | None:
    try:
        return code_of(git(root, "show", f"{commit}:{file}"))
    except NoCommit:  # it is not there
        return None


def code_of(source: str) -> str:
    """What Python makes of a source: neither comments nor layout, nor strings that stand alone, as docstrings do."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, [each for each in value if not _stands_alone(each)])
    return ast.dump(tree)


def _stands_alone(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
