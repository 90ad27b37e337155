"""The page that a package index shows is the README: there is no second text.

An index page cannot follow a link into the checkout. So such a link becomes its words, a picture goes, and the mermaid
picture becomes the list of its steps. All else of the package is declared in pyproject.toml.
"""

import re
from pathlib import Path

from setuptools import setup

_HERE = Path(__file__).parent
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_STEP = re.compile(r"^ *\w+ *--?>>?\+? *\w+ *: *(.+)$", re.MULTILINE)
_LINKED_PICTURE = re.compile(r"\[!\[[^\]]*\]\([^)]*\)\]\((?!https?:)[^)]*\) ?\n?")
_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*")
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")


def index_page(readme: str) -> str:
    """The README as it reads where only its own text is."""
    for pattern, text in ((_LINKED_PICTURE, ""), (_PICTURE, ""), (_LINK, r"\1")):
        readme = pattern.sub(text, readme)
    return with_steps(readme)


def with_steps(readme: str) -> str:
    """The README with the steps of its sequence diagram as a list."""
    return _MERMAID.sub(lambda found: steps(found[1]), readme)


def steps(diagram: str) -> str:
    """The messages of a sequence diagram, in reading order, as a numbered list."""
    return "".join(f"{number}. {text}\n" for number, text in enumerate(_STEP.findall(diagram), 1))


if __name__ == "__main__":
    setup(
        long_description=index_page((_HERE / "README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
    )
