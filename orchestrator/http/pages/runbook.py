"""The runbook as a part of the desk: the operator on call has it where the alarm is, without another site.

``docs/runbook.md`` is the source. ``make docs`` runs this module, which writes the part of the page that lies beside
the templates. It reads as much Markdown as that page uses.
"""

import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

FRAGMENT = Path(__file__).parent / "templates" / "runbook-text.html"
_ITEM = re.compile(r"(?:- |\d+\. )")
_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\(([^)]*)\)", re.DOTALL)


def html_of(markdown: str) -> str:
    """The page as a template, headings with the anchors that links to them have elsewhere."""
    return "\n".join(["{% raw %}", *_blocks(markdown.splitlines()), "{% endraw %}"]) + "\n"


def anchor_of(heading: str) -> str:
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _blocks(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        first = lines[at]
        if first.startswith("```"):
            end = next(index for index in range(at + 1, len(lines)) if lines[index].startswith("```"))
            yield f'<pre tabindex="0">{escape(chr(10).join(lines[at + 1 : end]))}</pre>'
            at = end + 1
            continue
        if not first.strip() or first.startswith("<!--"):
            at += 1
            continue
        end = at + 1
        if not first.startswith("#"):
            while end < len(lines) and lines[end].strip() and not lines[end].startswith(("#", "```")):
                end += 1
        yield _block(lines[at:end])
        at = end


def _block(lines: list[str]) -> str:
    first = lines[0]
    if first.startswith("#"):
        marks, _, text = first.partition(" ")
        return f'<h{len(marks)} id="{anchor_of(text)}">{_inline(text)}</h{len(marks)}>'
    if first.startswith("|"):
        return _table(lines)
    for index, line in enumerate(lines):
        if _ITEM.match(line):
            return (_paragraph(lines[:index]) if index else "") + _list(lines[index:])
    return _paragraph(lines)


def _paragraph(lines: list[str]) -> str:
    return f"<p>{_inline(' '.join(line.strip() for line in lines))}</p>"


def _list(lines: list[str]) -> str:
    items: list[str] = []
    for line in lines:
        begins = _ITEM.match(line)
        if begins:
            items.append(line[begins.end() :])
        else:
            items[-1] += " " + line.strip()
    name = "ul" if lines[0].startswith("-") else "ol"
    return f"<{name}>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + f"</{name}>"


def _table(lines: list[str]) -> str:
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    head = "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in rows[2:])
    return (
        '<div class="wide" tabindex="0" role="group" aria-label="Table">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _inline(text: str) -> str:
    found, at = [], 0
    for match in _INLINE.finditer(text):
        found += [escape(text[at : match.start()], quote=False), _marked(*match.groups())]
        at = match.end()
    return "".join([*found, escape(text[at:], quote=False)])


def _marked(code: str | None, bold: str | None, slanted: str | None, name: str | None, target: str | None) -> str:
    """Links lead only to places of this very page: the other pages are not served."""
    if code is not None:
        return f"<code>{escape(code, quote=False)}</code>"
    if bold is not None or slanted is not None:
        return f"<strong>{_inline(bold)}</strong>" if bold is not None else f"<em>{_inline(slanted or '')}</em>"
    if (target or "").startswith("#"):
        return f'<a href="{escape(target or "")}">{_inline(name or "")}</a>'
    return f'{_inline(name or "")} <span class="quiet">(docs/{escape((target or "").partition("#")[0])})</span>'


if __name__ == "__main__":
    FRAGMENT.write_text(html_of(Path(sys.argv[1]).read_text(encoding="utf-8")), encoding="utf-8")
