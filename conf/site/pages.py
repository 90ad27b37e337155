"""What turns the documents of the checkout into a site; mkdocs calls the functions that begin with ``on_``.

The first page is the README. A link that leaves ``docs`` for a page that is also on the site leads there, and one to
another file of the checkout becomes its words. Headings get the anchors that a code hosting platform gives them, so the
links of one are the links of both.
"""

import os
import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from setup import with_steps  # noqa: E402

FROM_ROOT = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Pages of the site, and the file beside ``docs`` that each is made of."""
_BADGE = re.compile(r"\[!\[[^\]]*\]\([^)]*\)\]\(\.\./\.\./actions/[^)]*\)\n*")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```[ \t]*$)", re.DOTALL | re.MULTILINE)
_ITEM = re.compile(r"( *)([-*]|\d+\.) ")
_REMOTE = re.compile(
    r"<(?:script|img|iframe)[^>]+src=[\"']?https?:|<link[^>]+rel=[\"']?(?:stylesheet|preload)[^>]+href=[\"']?https?:"
)


def site_page(name: str, text: str) -> str:
    """A document of the checkout as a page of the site; ``name`` is its path on the site."""
    source = PurePosixPath(FROM_ROOT.get(name) or f"docs/{name}")
    text = with_steps(_BADGE.sub("", text))
    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _prose(part, source, name) for part in parts)


def slug(heading: str, separator: str = "-") -> str:
    """The anchor of a heading."""
    plain = re.sub(r"<[^>]*>|[`*]", "", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", separator)


def _prose(text: str, source: PurePosixPath, name: str) -> str:
    def led(found: "re.Match[str]") -> str:
        bang, words, path, anchor = found[1], found[2], found[3], found[4] or ""
        if not path:
            return found[0]
        target = _on_site(os.path.normpath(source.parent / path))
        if target is None:
            return words
        return f"{bang}[{words}]({os.path.relpath(target, PurePosixPath(name).parent)}{anchor})"

    return _with_lists(_LINK.sub(led, text))


def _on_site(path: str) -> str | None:
    """Where a file of the checkout is on the site; None where it is not."""
    for page, origin in FROM_ROOT.items():
        if path == origin:
            return page
    return path.removeprefix("docs/") if path.startswith("docs/") and (ROOT / path).is_file() else None


def _with_lists(text: str) -> str:
    """A list that follows a paragraph at once gets an empty line before it, which Python's Markdown needs."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        item = _ITEM.match(line)
        if item and not item[1] and before.strip() and not _ITEM.match(before) and not before.startswith((" ", "|")):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def on_config(config: Any) -> Any:
    """The anchors of headings."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """The pages that are made of files beside ``docs``."""
    from mkdocs.structure.files import File

    for name, origin in FROM_ROOT.items():
        files.append(File.generated(config, name, content=(ROOT / origin).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Each page, before it is HTML."""
    return site_page(page.file.src_uri, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuses a page that a reader without a network would not see whole."""
    if found := _REMOTE.search(output):
        raise SystemExit(f"{page.file.src_uri} loads something from elsewhere: {found[0]}")
    return output
