"""Sixty queries at the desk, in a real Chromium: seen at a glance, narrowed, and failed over by three clicks.

The clusters and the runner are those of the simulation; the store, the server and the browser are real. One world
serves all tests of this module, and only the last of them moves anything.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from state.model.cluster_status import Verdict
from state.store.sql.migrate import open_store
from tests.browsing import DESKTOP, PHONE, Browser, browsing
from tests.desk_scene import judging, sample
from tests.served import OPERATOR, Served
from tests.simulation.conftest import CONFIG, Now, living
from tests.simulation.many import serving_many
from tests.simulation.test_http_writes import leading
from tests.simulation.world import QUERY, World
from tests.waiting import until

pytestmark = pytest.mark.real

NAMES = (QUERY, *(f"query-{number:02}" for number in range(1, 60)))
AWAY = NAMES[-4:]
UNREADY = NAMES[1:3]
UNMEASURED = NAMES[5:7]


@contextmanager
def sixty(folder: Path) -> Iterator[tuple[World, Served]]:
    """Four of sixty queries are away, and two are not ready; east is down, as the leading controller found."""
    (folder / "tideover.yaml").write_text(CONFIG, encoding="utf-8")
    with ExitStack() as stack:
        store = open_store(f"sqlite:///{folder}/t.db")
        stack.callback(store.close)
        world = World(store=store)
        world.runner.clock = Now()  # type: ignore[assignment] # it only says what time it is
        served = stack.enter_context(serving_many(world, folder, NAMES))
        for name in AWAY:
            assert world.carry_out(world.request(name)) is not None
        for name in NAMES:
            world.track(name, 8, 110, cluster="west" if name in AWAY else "east", epoch=3 if name in AWAY else 1)
        stack.enter_context(living(world))
        stack.enter_context(leading(store))
        lease = store.leader("controller")
        assert lease is not None
        for name in NAMES:
            sample(store, lease.term, name, refused=name in UNREADY, point=None if name in UNMEASURED else {})
        verdicts = stack.enter_context(judging(store, lease.term))
        verdicts["east"] = Verdict.DOWN
        yield world, served


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Served]]:
    with sixty(tmp_path_factory.mktemp("sixty")) as made:
        yield made


@pytest.fixture(scope="module")
def window(desk: tuple[World, Served]) -> Iterator[Browser]:
    with browsing(desk[1].port) as made:
        made.log_in(OPERATOR)
        yield made


def keep(window: Browser, name: str) -> None:
    """A picture of the whole page, where a person wants to look at it."""
    folder = os.environ.get("DESK_PICTURES")
    if folder:
        window.get_screenshot_as_file(str(Path(folder) / f"{name}.png"))


def resized(window: Browser, size: tuple[int, int], *, dark: bool = False) -> None:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


LOWEST = """
return Math.max(...[...document.querySelectorAll("#queries .grid li")].map(
  (each) => each.getBoundingClientRect().bottom + scrollY));
"""


@pytest.mark.parametrize(("size", "screens"), [(DESKTOP, 1), (PHONE, 3)], ids=["desktop", "phone"])
def test_sixty_queries_are_seen_on_one_screen(window: Browser, size: tuple[int, int], screens: int) -> None:
    resized(window, size, dark=size == PHONE)
    window.go("/")
    assert len(window.find_elements(By.CSS_SELECTOR, "#queries .grid li")) == len(NAMES)
    keep(window, f"overview-{size[0]}")
    assert window.execute_script(LOWEST) <= screens * size[1]
    assert (window.barriers(), window.overhang) == ([], 0)
    window.go("/?view=table")
    assert (window.barriers(), window.overhang) == ([], 0)
    keep(window, f"table-{size[0]}")


TRENDS = """
return Object.fromEntries([...document.querySelectorAll("#queries .grid li")].map((each) => {
  const picture = each.querySelector(".trend");
  const lines = [...picture.querySelectorAll("path")].map((line) => Math.round(line.getBBox().width));
  return [each.querySelector("a").innerText, [picture.getAttribute("aria-label") ?? picture.textContent, lines]];
}));
"""


def test_each_query_has_its_throughput_and_lag_of_the_last_hour_as_lines(
    desk: tuple[World, Served], window: Browser
) -> None:
    """A query with many samples has two lines, one with a single sample has no throughput, one with none says so."""
    store, words = desk[0].store, "throughput 20/s, at most 30/s; lag 3, at most 40"
    lease = store.leader("controller")
    assert lease is not None
    now = store.now()
    read = 0
    for minute in (*range(40, 19, -1), 2, 1):
        at, lag = now - timedelta(minutes=minute), 3 if minute == 1 else 40 - minute % 7
        read += 1200 if minute < 20 else 600 * (1 + minute % 3)
        sample(
            store, lease.term, UNMEASURED[0],
            point={"sampled_at": at, "read_at": at, "read_records": read, "lag_records": lag},
        )  # fmt: skip
    resized(window, DESKTOP)
    window.go("/")
    until(lambda: words in window.page_source, "the lines are not there")
    trends = window.execute_script(TRENDS)
    assert trends[UNMEASURED[0]] == [words, [39, 38]]  # a minute of lag comes before the first rate
    assert trends[UNMEASURED[1]] == ["no history", []]
    assert trends[AWAY[0]] == ["throughput unknown; lag 12, at most 12", [1]]
    keep(window, "trends")
    window.go(f"/queries/{UNMEASURED[0]}")
    assert words in window.part("now")
    window.go(f"/queries/{UNMEASURED[1]}")
    assert "no history yet" in window.part("now")
    window.go("/?view=table&sort=query")
    assert "20/s" in window.part("queries")
    assert "no history yet" in window.part("queries")
    assert (window.barriers(), window.overhang, window.complaints()) == ([], 0, [])


def shown(window: Browser) -> list[str]:
    found = "return [...document.querySelectorAll('#queries .grid li a, #queries tbody th a')].map((a) => a.innerText)"
    return list(window.execute_script(found))


def test_a_reader_types_and_sees_only_the_queries_that_match(window: Browser) -> None:
    resized(window, DESKTOP)
    window.go("/")
    window.shown("queries", "60 of 60 shown")
    window.find_element(By.ID, "find").send_keys("QUERY-0")
    window.shown("queries", "9 of 60 shown")
    assert window.current_url.endswith("/?find=QUERY-0&sort=attention")
    assert window.find_element(By.ID, "find").get_property("value") == "QUERY-0"
    window.go("/")
    window.follow("not ready 2")
    assert sorted(shown(window)) == sorted(UNREADY)
    window.follow("not ready 2")
    assert len(shown(window)) == len(NAMES)
    window.follow("away 4")
    assert set(shown(window)) == set(AWAY)
    window.follow("table")
    window.follow("Query")
    assert shown(window) == sorted(AWAY)
    assert window.complaints() == []


PICTURE = """
return [
  [...document.querySelectorAll("#picture .box")].map((each) => [
    each.getAttribute("class"), each.querySelector(".name").textContent]),
  [...document.querySelectorAll("#picture a")].map((each) => each.getAttribute("href")),
];
"""


def test_the_picture_of_the_routes_leads_to_the_queries_of_a_cluster(window: Browser) -> None:
    resized(window, DESKTOP)
    window.go("/")
    boxes, links = window.execute_script(PICTURE)
    assert boxes == [["box bad", "east"], ["box good", "west"]]
    assert "×" in window.part("picture")
    window.go(links[-1])
    window.shown("queries", "4 of 60 shown, on west")
    assert set(shown(window)) == set(AWAY)


def test_the_tab_shows_the_state_and_times_are_the_readers_own_too(window: Browser) -> None:
    window.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    window.go("/")
    assert window.title.startswith("east is DOWN")
    icon = window.find_element(By.CSS_SELECTOR, "link[rel=icon]").get_dom_attribute("href")
    assert icon == "/static/icon-bad.svg"
    window.shown("live", "Live")
    window.shown("age", " s ago")
    utc, here = window.execute_script(TIMES)
    hours, minutes = (int(each) for each in utc.split(":"))
    assert here == f"{(hours * 60 + minutes + 330) // 60 % 24:02}:{(minutes + 30) % 60:02}"
    window.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    window.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite"], "origin": window.base})
    window.execute_script("document.querySelector('#attention .command button').click()")
    window.shown("attention", "Copied")
    copied = window.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied == "tideover plan failover --all --expect-active east"
    assert window.complaints() == []


TIMES = """
const time = document.querySelector("#attention time");
return [time.dateTime.slice(11, 16), time.querySelector(".local").textContent.slice(2, 7)];
"""


def test_the_history_folds_the_lines_of_an_operation(window: Browser) -> None:
    for size in (DESKTOP, PHONE):
        resized(window, size)
        window.go(f"/history?query={AWAY[0]}")
        assert (window.barriers(), window.overhang) == ([], 0)
        keep(window, f"history-{size[0]}")
    window.find_element(By.CSS_SELECTOR, "#lines details summary").click()
    assert f"failover of {AWAY[0]} from east to west" in window.part("lines")
    window.go(f"/operations/{window.find_element(By.LINK_TEXT, 'operation').get_dom_attribute('href').split('/')[-1]}")
    assert window.find_elements(By.CSS_SELECTOR, "form[action$=cancel]") == [], "it is committed"
    keep(window, "operation")
    assert window.complaints() == []


@pytest.mark.parametrize("scripts", [False, True], ids=["no-scripts", "scripts"])
def test_three_clicks_request_a_failover_of_all_queries_of_a_dead_cluster(
    desk: tuple[World, Served], window: Browser, scripts: bool
) -> None:
    world, served = desk
    with ExitStack() as stack:
        if not scripts:
            window = stack.enter_context(browsing(served.port, size=PHONE, scripts=False))
            window.log_in(OPERATOR)
        window.go("/")
        assert "56 queries wait" in window.part("attention")
        window.press("Plan failover of these 56")
        until(lambda: "56 of 56 can move" in window.page_source, "there is no plan")
        keep(window, f"plan-{scripts}")
        assert window.overhang == 0
        assert (window.barriers() if scripts else []) == []
        before = len(world.store.open_requests())
        if not scripts:
            return
        window.press("Start the failover of the 56 selected")
        until(lambda: "/groups/" in window.current_url, "the button leads nowhere")
        requests = world.store.open_requests()
        assert len(requests) - before == len(NAMES) - len(AWAY)
        assert len({each.group for each in requests}) == 1
        window.shown("group", "0 of 56 have ended")
        keep(window, "group")
        assert window.complaints() == []
