"""The pictures of docs/images: ``python -m tests.desk_pictures FOLDER`` takes them of a real run, by a real Chromium.

Two clusters, MirrorMaker 2, Spark and two controllers run for some minutes under load; the replicator is frozen for
a while, so that the plots have something to show. Then one cluster is killed and the queries are failed over.
"""

import base64
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from selenium.webdriver.common.by import By

from tests.browsing import DESKTOP, PHONE, Browser, browsing
from tests.desk_world import DeskWorld, running_desk
from tests.served import OPERATOR
from tests.waiting import until

QUERIES = ("archive", "orders", "revenue")
QUALITY = 60
CALM_SECONDS = 100.0
STILL_SECONDS = 80.0
"""The replicator, between two calm whiles: a sample falls into it."""


def take(window: Browser, file: Path) -> None:
    """The window as it is, as WebP: a third of what PNG takes."""
    shot = window.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    file.write_bytes(base64.b64decode(shot["data"]))


def draw(folder: Path) -> None:
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        desk = stack.enter_context(running_desk(Path(made) / "run", QUERIES))
        _let_time_pass(desk)
        desktop = stack.enter_context(browsing(desk.ports["one"]))
        phone = stack.enter_context(browsing(desk.ports["two"], size=PHONE, dark=True))
        for window in (desktop, phone):
            window.log_in(OPERATOR)
        desktop.go("/queries/orders")
        until(lambda: len(desktop.find_elements(By.CSS_SELECTOR, "#plots canvas")) == 2, "there are no plots")
        _take_part(desktop, "plots", folder / "desk-query.webp")
        for window in (desktop, phone):
            window.go("/")
            window.shown("live", "Live")
        _take_part(desktop, "queries", folder / "desk-queries.webp")
        desk.on.lab("kill", "east")
        for window in (desktop, phone):
            window.shown("clusters", "DOWN")
        words = ("failover", "--all", "--to", "west", "--yes", "--reason", "east is down")
        desk.on.start("failover", "orchestrator", "-c", str(desk.on.config), *words)
        for window, name in ((desktop, "desk"), (phone, "desk-phone")):
            window.shown("operations", "failover of")
            take(window, folder / f"{name}.webp")
        until(lambda: not desk.on.query("list")[0]["operation"], "the failover does not end")
        (newest, *_) = desk.on.query("show", "orders")["operations"]
        desktop.go(f"/operations/{newest['id']}")
        desktop.shown("state", "done")
        take(desktop, folder / "desk-operation.webp")


def _let_time_pass(desk: DeskWorld) -> None:
    """Samples are taken once a minute."""
    time.sleep(CALM_SECONDS)
    desk.on.lab("freeze", "replicator")
    time.sleep(STILL_SECONDS)
    desk.on.lab("thaw", "replicator")
    time.sleep(CALM_SECONDS)


def _take_part(window: Browser, part: str, file: Path) -> None:
    window.execute_script(f"document.getElementById('{part}').scrollIntoView()")
    size = window.execute_script(f"return document.getElementById('{part}').getBoundingClientRect().toJSON()")
    clip = {"x": 0, "y": size["y"] + window.execute_script("return scrollY"), "width": DESKTOP[0], "scale": 1}
    shot = window.execute_cdp_cmd(
        "Page.captureScreenshot",
        {
            "format": "webp",
            "quality": QUALITY,
            "captureBeyondViewport": True,
            "clip": clip | {"height": size["height"]},
        },
    )
    file.write_bytes(base64.b64decode(shot["data"]))
    window.execute_script("scrollTo(0, 0)")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
