"""The runbook of the desk, made from the one of the docs."""

import pytest

from tests.desk_runbook import FRAGMENT, SOURCE, html_of


def test_the_runbook_of_the_page_is_the_one_of_the_docs() -> None:
    assert FRAGMENT.read_text(encoding="utf-8") == html_of(SOURCE.read_text(encoding="utf-8")), "run: make docs"


def test_a_link_stays_on_the_page_or_is_the_name_of_another_one() -> None:
    made = html_of("[a `b`](#c-d) and [e](f.md#g)\n")
    assert '<a href="#c-d">a <code>b</code></a>' in made
    assert 'and e <span class="quiet">(docs/f.md)</span>' in made


def test_a_text_that_looks_like_html_is_no_markup() -> None:
    made = html_of("# A `<b>` & more\n\n<!-- for the writer -->\n\n1 < 2 {{ x }}\n\n```\n<script>\n```\n")
    assert '<h1 id="a-b--more">A <code>&lt;b&gt;</code> &amp; more</h1>' in made
    assert "writer" not in made
    assert '<pre tabindex="0">&lt;script&gt;</pre>' in made
    assert made.startswith("{% raw %}")
    with pytest.raises(ValueError, match="the runbook has HTML: <script>"):
        html_of("<script>\n")
