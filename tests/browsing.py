"""A real Chromium, driven by selenium; both are Debian's packages, of one build, and nothing is downloaded."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from tests.waiting import until

AXE = Path(__file__).parent / "vendored" / "axe-core" / "axe.min.js"
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
Result = TypeVar("Result")
DESKTOP, PHONE = (1280, 900), (390, 844)
SERIOUS = {"serious", "critical"}


def steadily(act: Callable[[], Result]) -> Result:
    """Do something with an element of a page whose script replaces its parts: again where it was replaced just then."""
    for _ in range(10):
        try:
            return act()
        except StaleElementReferenceException:
            continue
    return act()


class Browser(Chrome):
    """One window."""

    base: str

    def go(self, path: str) -> None:
        """Open a page of the desk."""
        self.get(f"{self.base}{path}")

    def log_in(self, token: str) -> None:
        """By the form, with the keyboard alone."""
        self.go("/login")
        until(lambda: self.switch_to.active_element.tag_name == "input", "no field has the focus")
        field = self.switch_to.active_element
        field.send_keys(token)
        assert field.get_property("value") == token, "not all keys came to the field"
        field.send_keys("\n")
        until(lambda: not self.current_url.endswith("/login") or self._part_now("wrong"), "the login leads nowhere")
        assert self._part_now("wrong") == ""

    def part(self, name: str) -> str:
        """What a part of the page says."""
        return steadily(lambda: str(self.find_element(By.ID, name).text))

    def press(self, button: str) -> None:
        """Click on a button by its words."""
        steadily(lambda: self.find_element(By.XPATH, f"//main//button[contains(., '{button}')]").click())

    def follow(self, link: str) -> None:
        """Click on a link by its words."""
        steadily(lambda: self.find_element(By.LINK_TEXT, link).click())

    def shown(self, name: str, words: str) -> None:
        """Wait until a part of the page says something."""
        until(lambda: words in self._part_now(name), f"{name} does not say {words!r}")

    def _part_now(self, name: str) -> str:
        """Parts are replaced while a person reads them, so the text is requested in one step."""
        return str(self.execute_script("return document.getElementById(arguments[0])?.innerText ?? ''", name))

    def complaints(self) -> list[str]:
        """What the console says: what the policy of the page has refused, and scripts that broke."""
        return [str(each["message"]) for each in self.get_log("browser")]

    def barriers(self) -> list[tuple[str, str, str]]:
        """What axe finds that is serious: rule, how serious, and the first place."""
        self.execute_cdp_cmd("Runtime.evaluate", {"expression": axe()})  # as an extension would, past the policy
        found: Any = self.execute_async_script("axe.run().then(arguments[0])")
        return [
            (each["id"], each["impact"], each["nodes"][0]["html"])
            for each in found["violations"]
            if each["impact"] in SERIOUS
        ]

    @property
    def overhang(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.execute_script("return document.documentElement.scrollWidth - innerWidth"))


@cache
def axe() -> str:
    """axe-core as it was vendored."""
    text = AXE.read_bytes()
    assert hashlib.sha256(text).hexdigest() == AXE_SHA256
    return text.decode()


def driver() -> str:
    """The path of the driver. Fails where there is none, in one line."""
    found = shutil.which("chromedriver")
    if found is None or shutil.which("chromium") is None:
        pytest.fail("Chromium and its driver are needed: make browser", pytrace=False)
    return found


@contextlib.contextmanager
def browsing(
    port: int, *, size: tuple[int, int] = DESKTOP, dark: bool = False, scripts: bool = True
) -> Iterator[Browser]:
    """A window on the desk that listens on a port of this host."""
    path, options = driver(), ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # which root may not have
    if not scripts:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    window = Browser(options=options, service=Service(path))
    try:
        window.base = f"http://127.0.0.1:{port}"
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield window
    finally:
        window.quit()
