"""A night at the desk, on real clusters, Spark and Chromium: a cluster dies, one person acts, another one follows."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from tests.browsing import PHONE, browsing
from tests.desk_world import running_desk
from tests.served import OPERATOR, VIEWER
from tests.waiting import until

pytestmark = pytest.mark.real

CHANGES = "main form[method='post' i]"
"""What changes anything; a viewer may narrow what is shown, and copy commands."""
REMEMBER = "window.stayed = true"
"""Whatever a page is sent this way it forgets as soon as it is loaded again."""


def test_a_cluster_dies_and_people_act_and_follow_by_the_page(tmp_path: Path) -> None:
    with ExitStack() as stack:
        desk = stack.enter_context(running_desk(tmp_path / "story", ("archive",)))
        operator = stack.enter_context(browsing(desk.ports["one"]))
        viewer = stack.enter_context(browsing(desk.ports["two"], size=PHONE))
        operator.log_in(OPERATOR)
        viewer.log_in(VIEWER)
        viewer.go("/queries/archive")
        assert viewer.find_elements(By.CSS_SELECTOR, CHANGES) == []
        viewer.go("/")
        assert viewer.find_elements(By.CSS_SELECTOR, CHANGES) == []
        viewer.shown("clusters", "UP")
        viewer.shown("live", "Live")
        viewer.execute_script(REMEMBER)

        desk.on.lab("kill", "east")
        for window in (viewer, operator):
            window.shown("history", "east is SUSPECT")
            window.shown("attention", "east is DOWN")
            window.shown("clusters", "DOWN")

        operator.execute_script("document.querySelector('#queries tbody a').click()")  # in one step
        operator.press("Plan")
        until(lambda: "Every gate passes" in operator.page_source, "the plan is refused")
        operator.find_element(By.ID, "reason").send_keys("east is down")
        operator.press("Failover archive to west")
        until(lambda: "/operations/" in operator.current_url, "the request is not followed")
        operator.execute_script(REMEMBER)
        operator.shown("steps", "commit")
        operator.shown("state", "done")
        assert operator.execute_script("return window.stayed") is True
        assert "anna@http: east is down" in operator.part("state")
        viewer.shown("history", "is committed on west")  # the operation is over in less than a page takes to look
        viewer.shown("queries", "west")

        desk.controllers["one"].kill()
        operator.shown("live", "No news from this controller: it does not answer.")
        viewer.shown("attention", "Controller two leads")
        viewer.shown("live", "Live")
        assert viewer.execute_script("return window.stayed") is True
        assert viewer.complaints() == []
