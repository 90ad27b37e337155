"""The site has every document, its links are those of the checkout, and it needs no network."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.contract.test_docs import ROOT, anchors_of

CONFIG = yaml.safe_load((ROOT / "conf" / "site" / "mkdocs.yml").read_text(encoding="utf-8"))
DOCS = ROOT / "docs"


def loaded() -> ModuleType:
    """The module that mkdocs loads by its path."""
    spec = importlib.util.spec_from_file_location("pages", ROOT / "conf" / "site" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = loaded()


def in_nav() -> list[str]:
    found = []
    for entry in CONFIG["nav"]:
        (below,) = entry.values()
        found += [below] if isinstance(below, str) else [page for each in below for page in each.values()]
    return found


def test_each_document_has_one_place_on_the_site() -> None:
    documents = [page.name for page in DOCS.glob("*.md")] + ["reports/README.md", *PAGES.FROM_ROOT]
    assert sorted(in_nav()) == sorted(documents)


@pytest.mark.parametrize("name", [name for name in in_nav() if name not in PAGES.FROM_ROOT])
def test_a_heading_has_the_same_anchor_on_the_site_as_in_the_checkout(name: str) -> None:
    text = re.sub(r"^```.*?^```", "", (DOCS / name).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    linked = {heading for heading in headings if "](" in heading}
    assert {PAGES.slug(each) for each in plain} >= anchors_of(DOCS / name) - {PAGES.slug(each) for each in linked}


@pytest.mark.parametrize(
    "name", sorted({*in_nav(), *(f"reports/{page.name}" for page in (DOCS / "reports").glob("*.md"))})
)
def test_each_link_of_a_page_leads_to_a_page_of_the_site(name: str) -> None:
    origin = ROOT / PAGES.FROM_ROOT[name] if name in PAGES.FROM_ROOT else DOCS / name
    page = PAGES.site_page(name, origin.read_text(encoding="utf-8"))
    for target in re.findall(
        r"\]\((?!https?:|#)([^)#]+)", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    ):
        found = (Path(name).parent / target).as_posix()
        led = re.sub(r"[^/]+/\.\./", "", found)
        assert led in PAGES.FROM_ROOT or (DOCS / led).is_file(), (name, target)


def test_a_link_that_leaves_the_documents_becomes_its_words() -> None:
    assert PAGES.site_page("size.md", "see [the code](../lab/cli.py)") == "see the code"
    assert PAGES.site_page("size.md", "see [changes](../CHANGELOG.md)") == "see [changes](changelog.md)"
    assert PAGES.site_page("reports/notes.md", "[a](../size.md#x) [b](#y)") == "[a](../size.md#x) [b](#y)"
    assert (
        PAGES.site_page("index.md", "[a](docs/size.md) ![b](docs/images/demo.svg)")
        == "[a](size.md) ![b](images/demo.svg)"
    )


def test_a_list_right_after_a_paragraph_is_a_list_on_the_site() -> None:
    assert PAGES.site_page("size.md", "words:\n- one\n- two") == "words:\n\n- one\n- two"
    assert PAGES.site_page("size.md", "```\nwords:\n- one\n```") == "```\nwords:\n- one\n```"


def test_a_page_that_loads_something_from_elsewhere_is_refused() -> None:
    page = type("Page", (), {"file": type("File", (), {"src_uri": "size.md"})})
    assert PAGES.on_post_page('<a href="https://kafka.example">', page) == '<a href="https://kafka.example">'
    with pytest.raises(SystemExit, match=r"size\.md loads something from elsewhere"):
        PAGES.on_post_page('<script src="https://cdn.example/a.js">', page)
