"""The runbook as a part of the desk: the operator on call has it where the alarm is, without another site.

``docs/runbook.md`` is the source. ``python -m tests.desk_runbook write`` makes the part of the page that lies beside
the templates.
"""

import re
import sys
from collections.abc import MutableMapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "docs" / "runbook.md"
FRAGMENT = ROOT / "orchestrator" / "http" / "pages" / "templates" / "runbook-text.html"


class DeskHtml(RendererHTML):
    """HTML as the desk has it: tables that scroll, headings with anchors, links that stay on the page."""

    def heading_open(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        """With the anchor that links to it have elsewhere."""
        return f'<{tokens[index].tag} id="{anchor_of(tokens[index + 1].content)}">'

    def fence(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return f'<pre tabindex="0">{escape(tokens[index].content.rstrip())}</pre>\n'

    def table_open(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return '<div class="wide" tabindex="0" role="group" aria-label="Table"><table>\n'

    def table_close(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return '<th scope="col">'

    def html_block(self, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        """Comments are for who writes the page, and it has no other HTML."""
        if not tokens[index].content.startswith("<!--"):
            raise ValueError(f"the runbook has HTML: {tokens[index].content}")
        return ""

    def link_open(self, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
        """Links lead only to places of this very page: the other pages are not served."""
        target = str(tokens[index].attrs["href"])
        is_here = target.startswith("#")
        env.setdefault("ends", []).append("</a>" if is_here else elsewhere(target))
        return f'<a href="{escape(target)}">' if is_here else ""

    def link_close(self, tokens: Sequence[Token], index: int, options: Any, env: MutableMapping[str, Any]) -> str:
        return str(env["ends"].pop())


def elsewhere(target: str) -> str:
    """The name of another page, where a link to it would be."""
    return f' <span class="quiet">(docs/{escape(target.partition("#")[0])})</span>'


def html_of(markdown: str) -> str:
    """The page as a template. Raises ``ValueError`` for HTML in it."""
    made = MarkdownIt("commonmark", renderer_cls=DeskHtml).enable("table")
    return "{% raw %}\n" + str(made.render(markdown)) + "{% endraw %}\n"


def anchor_of(heading: str) -> str:
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    if sys.argv[1:] != ["write"]:
        sys.exit("usage: python -m tests.desk_runbook write")
    FRAGMENT.write_text(html_of(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
