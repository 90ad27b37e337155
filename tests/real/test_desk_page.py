"""The page in a real Chromium: it follows without a reload, acts by clicks, and shuts no one out."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from state.model.cluster_status import Verdict
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from streaming.cluster_log import Logs
from tests.browsing import DESKTOP, PHONE, browsing
from tests.desk_scene import config_of, fill, judge, judging, sample
from tests.served import OPERATOR, VIEWER, Served, serving
from tests.simulation.conftest import CONFIG
from tests.simulation.conftest import folder as folder  # a fixture
from tests.simulation.conftest import world as world  # a fixture
from tests.simulation.test_http_writes import leading
from tests.simulation.world import QUERY, World
from tests.waiting import until

pytestmark = pytest.mark.real

QUERIES = ("revenue", "sums", "users")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ControllerStore]:
    made = open_store(f"sqlite:///{tmp_path}/t.db")
    yield made
    made.close()


@pytest.fixture
def term(store: ControllerStore) -> int:
    return fill(store, QUERIES)


@pytest.fixture
def verdicts(store: ControllerStore, term: int) -> Iterator[dict[str, Verdict]]:
    with judging(store, term) as made:
        yield made


@pytest.fixture
def served(tmp_path: Path, term: int) -> Iterator[Served]:
    with serving(tmp_path, config=config_of(QUERIES)) as made:
        yield made


def test_the_page_follows_what_happens_without_a_reload(
    store: ControllerStore, term: int, served: Served, verdicts: dict[str, Verdict]
) -> None:
    with browsing(served.port) as window:
        window.log_in(VIEWER)
        window.shown("attention", "Nothing is wrong")
        window.execute_script("window.stayed = true")
        for verdict in (Verdict.SUSPECT, Verdict.DOWN):
            verdicts["east"] = verdict
            window.shown("clusters", verdict.value)
            window.shown("attention", f"east is {verdict.value}")
        sample(store, term, "sums", refused=True)
        window.shown("queries", "replication-lag")
        window.shown("history", "sums was checked")
        window.shown("live", "Live")
        assert window.execute_script("return window.stayed") is True
        assert window.complaints() == []


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_the_last_hours_of_the_standby_are_plotted(
    store: ControllerStore, term: int, served: Served, scripts: bool
) -> None:
    for age_ms in (400, 3_000, 1_200):
        sample(store, term, "sums", age_ms=age_ms)
    with browsing(served.port, scripts=scripts) as window:
        window.log_in(VIEWER)
        window.go("/queries/sums")
        assert "Exposure: now 1.2 s, highest 3.0 s at" in window.part("plots")
        if scripts:
            until(lambda: len(window.find_elements(By.CSS_SELECTOR, "#plots canvas")) == 2, "uPlot draws nothing")
            assert window.execute_script(PAINTED) == [True, True]
        assert len(window.find_elements(By.CSS_SELECTOR, "#plots svg path")) == (0 if scripts else 2)
        assert (window.barriers() if scripts else [], window.overhang) == ([], 0)
        assert window.complaints() == []


PAINTED = """
const found = getComputedStyle(document.documentElement).getPropertyValue("--mark").trim();
const wanted = [1, 3, 5].map((at) => parseInt(found.slice(at, at + 2), 16));
return [...document.querySelectorAll("#plots canvas")].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] === 255 && wanted.every((value, index) => value === data[at + index])) return true;
  }
  return false;
});
"""
"""Whether each canvas has a point of the colour of the lines."""


def test_a_controller_that_dies_is_said_on_its_page(tmp_path: Path, term: int) -> None:
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(serving(tmp_path, config=config_of(QUERIES)))
        window = stack.enter_context(browsing(served.port))
        window.log_in(VIEWER)
        window.shown("live", "Live")
        served.server.close()
        window.shown("live", "No news from this controller: it does not answer.")
        assert "revenue" in window.part("queries")


def test_a_session_that_ended_elsewhere_leads_back_to_the_login(
    term: int, store: ControllerStore, served: Served
) -> None:
    with browsing(served.port) as window:
        window.log_in(VIEWER)
        window.shown("live", "Live")
        cookie = window.get_cookies()[0]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        window.delete_all_cookies()
        judge(store, term, east=Verdict.DOWN)
        until(lambda: window.current_url.endswith("/login"), "the page stays")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_a_failover_is_planned_and_begun_by_clicks_and_another_page_follows(
    world: World, folder: Path, scripts: bool
) -> None:
    @contextlib.contextmanager
    def logs(*_: object) -> Iterator[Logs]:
        yield world.clusters.__getitem__

    with contextlib.ExitStack() as stack:
        served = stack.enter_context(serving(folder, config=CONFIG, open_logs=logs))
        looker = stack.enter_context(browsing(served.port, size=PHONE))
        looker.log_in(VIEWER)
        looker.go(f"/queries/{QUERY}")
        looker.shown("now", "east")
        assert looker.find_elements(By.CSS_SELECTOR, "main form") == []
        window = stack.enter_context(browsing(served.port, scripts=scripts))
        window.log_in(OPERATOR)
        window.follow(QUERY)
        with leading(world.store):
            window.press("Plan")
            until(lambda: "Every gate passes" in window.page_source, "there is no plan")
            window.find_element(By.ID, "reason").send_keys("east is down")
            window.press(f"Failover {QUERY} to west")
            until(lambda: "/requests/" in window.current_url, "the button leads nowhere")
        (request,) = world.store.open_requests()
        carrying = threading.Thread(target=world.carry_out, args=(request,))
        carrying.start()
        carrying.join()
        if scripts:
            until(lambda: "/operations/" in window.current_url, "the request is not followed")
            window.shown("state", "done")  # it came while the operation was open, and follows it
            window.shown("steps", "verify")
        else:
            assert window.part("live") == ""
            window.follow("Look again")
            until(lambda: "/operations/" in window.current_url, "the request leads nowhere")
        assert "anna@http: east is down" in window.part("state")
        assert "done" in window.part("state")
        assert "verify" in window.part("steps")
        looker.shown("now", "west")
        looker.shown("operations", "failover")
        assert window.complaints() == looker.complaints() == []


PAGES = ("/", "/history", "/runbook", "/queries/revenue", "/queries/revenue/partitions", "/queries/revenue/timeline")


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)], ids=["desktop-light", "phone-dark"])
def test_no_page_shuts_anybody_out(
    store: ControllerStore,
    term: int,
    served: Served,
    verdicts: dict[str, Verdict],
    size: tuple[int, int],
    dark: bool,
) -> None:
    verdicts.update(east=Verdict.DOWN, west=Verdict.DEGRADED)
    sample(store, term, "sums", refused=True)
    with browsing(served.port, size=size, dark=dark) as window:
        window.go("/login")
        assert (window.barriers(), window.overhang) == ([], 0)
        window.log_in(OPERATOR)
        for path in PAGES:
            window.go(path)
            assert (window.barriers(), window.overhang) == ([], 0), path
        window.go("/nowhere")
        assert window.barriers() == []


def test_the_pages_of_a_plan_and_an_operation_are_accessible(world: World, folder: Path) -> None:
    @contextlib.contextmanager
    def logs(*_: object) -> Iterator[Logs]:
        yield world.clusters.__getitem__

    done = world.carry_out(world.request())
    assert done is not None
    with serving(folder, config=CONFIG, open_logs=logs) as served, browsing(served.port, size=PHONE) as window:
        window.log_in(OPERATOR)
        window.go(f"/operations/{done.id}")
        assert (window.barriers(), window.overhang) == ([], 0)
        window.go(f"/queries/{QUERY}")
        window.press("Plan")
        until(lambda: "Plan it again" in window.page_source, "there is no plan")
        assert (window.barriers(), window.overhang) == ([], 0)


def test_the_keyboard_alone_is_enough(served: Served) -> None:
    with browsing(served.port) as window:
        window.log_in(OPERATOR)
        reached = []
        for _ in range(5):
            window.switch_to.active_element.send_keys(Keys.TAB)
            reached.append(window.switch_to.active_element.text)
        assert reached == ["Skip to the content", "Tideover", "Overview", "History", "Runbook"]
        window.go("/")
        window.switch_to.active_element.send_keys(Keys.TAB)
        window.switch_to.active_element.send_keys(Keys.ENTER)
        assert window.switch_to.active_element.get_attribute("id") == "main"


def test_the_focus_stays_where_it_is_when_a_part_is_fetched_again(
    store: ControllerStore, term: int, served: Served
) -> None:
    with browsing(served.port) as window:
        window.log_in(VIEWER)
        link = window.find_element(By.LINK_TEXT, "sums")
        window.execute_script("arguments[0].focus()", link)
        sample(store, term, "users", age_ms=8_000)
        window.shown("queries", "8.0 s")
        assert window.switch_to.active_element.text == "sums"
