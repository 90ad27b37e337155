"""The page of a group's report: all of its numbers, nothing from elsewhere, and text that is only text."""

import re

from orchestrator.facts.evidence.group_page import group_page
from tests.unit.orchestrator.shapes.test_group_report import done, report, requested


def test_the_page_shows_each_query_and_the_sums() -> None:
    page = group_page(report([requested("clicks", refused="west is down")], [done("revenue")]))
    for text in (
        "failover of 2 queries",
        "1 refused, 1 done",
        "revenue runs on west",
        "west is down",
        "<code>op-revenue</code>",
    ):
        assert text in page
    assert re.search(r"records read twice</th><td>3<", page)
    assert page.count("unknown") == 10


def test_the_page_has_no_script_no_link_and_no_markup_of_others() -> None:
    page = group_page(report([], [done("revenue", sentence="<script>alert(1)</script>", reason='"><a href=x>')]))
    assert not re.search(r"<script|<a |href=|src=|url\(", page.replace("href=x&gt;", ""))
    assert "&lt;script&gt;" in page
