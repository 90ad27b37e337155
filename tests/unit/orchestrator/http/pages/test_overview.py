"""A page is drawn once of each status, however many look at it, and what is kept stays small."""

from pathlib import Path

import pytest
from markupsafe import Markup

from orchestrator.http.pages import markup, overview
from orchestrator.http.pages.markup import Drawn
from orchestrator.http.pages.overview import Overview
from orchestrator.http.reads import Reads
from state.model.cluster_status import Verdict
from state.store.sql.migrate import open_store
from streaming.clocks import SystemClock
from tests.desk_scene import fill, judge, sample
from tests.unit.orchestrator.decide.desk.test_attention import settings, status


def test_a_page_is_drawn_again_only_for_another_status() -> None:
    made, first, drawings = Drawn(), status(), [Markup("one"), Markup("two"), Markup("three")]
    again = iter(drawings)
    assert made.of("page", first, lambda: next(again)) == "one"
    assert made.of("page", first, lambda: next(again)) == "one"
    assert made.of("other", first, lambda: next(again)) == "two"
    assert made.of("page", status(), lambda: next(again)) == "three"


def test_pages_that_were_drawn_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markup, "PAGES", 3)
    made, now = Drawn(), status()
    for each in range(10):
        made.of(each, now, lambda: Markup("x"))
    assert list(made._kept) == [7, 8, 9]


def test_copies_are_read_again_only_when_they_were_sampled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/t.db")
    term, requested = fill(store, ("revenue", "sums")), []
    reads = Reads(store, settings(("revenue", "sums")), SystemClock())
    page, real = Overview(reads), store.replication
    monkeypatch.setattr(store, "replication", lambda query: requested.append(query) or real(query))
    monkeypatch.setattr(overview, "concerns_of", lambda *_: ())

    def look() -> None:
        reads._newest = None
        page.markup(may_act=False)

    look()
    assert requested == ["revenue", "sums"]
    judge(store, term, east=Verdict.DOWN)
    look()
    assert requested == ["revenue", "sums"]
    sample(store, term, "sums", age_ms=9_000)
    look()
    assert requested == ["revenue", "sums", "sums"]
    store.close()
