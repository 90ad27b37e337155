"""``docs/messages.md``: every text that the product can show, found in its source.

``python -m tests.messages_page write`` makes it. Docstrings, descriptions of options and of keys, SQL and patterns are
left out: other pages have them, or no reader sees them. What a message names while it runs is in braces, as the source
has it.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "messages.md"
PRODUCT = ("orchestrator", "streaming", "state")
HEAD = """# Every message of the program

`make docs` writes this page from the source, and `make check` compares the two. Search it for a text that you saw. The
heading above it names the module; [the map of the code](architecture.md) describes it. `{...}` is filled in.
[The runbook](runbook.md) and [the questions](questions.md) have what to do.
"""
_NOT_FOR_READERS = re.compile(
    r"\\[dswbAZ]|\(\?|^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|ALTER|PRAGMA|SET)\b|^[\w.-]+/|</|/>"
    r"|default-src|^:root|\]\("
)
_DESCRIBING = {"option", "argument", "Field", "command", "group", "Endpoint", "compile", "namedtuple", "TypeVar"}
"""Calls whose texts are on the page of verbs, of keys, or in the document of OpenAPI."""
_LEAST_WORDS = 3
_LONGEST_NAME = 40


def messages_of(source: str) -> list[str]:
    """The texts of one module, in their order."""
    tree = ast.parse(source)
    found = dict.fromkeys(_texts(tree))
    return [each for each in found if _is_message(each)]


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name in PRODUCT:
        for path in sorted((ROOT / name).rglob("*.py")):
            found = messages_of(path.read_text(encoding="utf-8"))
            if found:
                parts.append(f"## {path.relative_to(ROOT).as_posix()}\n\n```\n" + "\n".join(found) + "\n```\n")
    return "\n".join(parts)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Call) and _called(node) in _DESCRIBING:
        return
    if isinstance(node, ast.JoinedStr):
        yield "".join(_piece(each) for each in node.values)
        return
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield " ".join(node.value.split())
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _piece(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return re.sub(r"\s+", " ", str(node.value))
    text = ast.unparse(node.value) if isinstance(node, ast.FormattedValue) else ast.unparse(node)
    return "{" + (text if len(text) <= _LONGEST_NAME else "...") + "}"


def _is_message(text: str) -> bool:
    words = re.findall(r"[A-Za-z]{2,}", re.sub(r"\{[^}]*\}", "", text))
    return len(words) >= _LEAST_WORDS and " " in text.strip() and not _NOT_FOR_READERS.search(text)


if __name__ == "__main__":
    if sys.argv[1:] != ["write"]:
        sys.exit("usage: python -m tests.messages_page write")
    PAGE.write_text(page(), encoding="utf-8")
