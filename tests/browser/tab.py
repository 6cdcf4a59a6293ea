"""Tab of a real browser, which records errors that a page must never cause."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, Request

PROGRAMS = ("chromium-headless-shell", "chromium")
"""Names of the program. The first is Chromium without its windows: a tab takes a fifth of the processor time."""
AXE = (Path(__file__).parent / "vendor" / "axe-4.14.1.min.js").read_text()
# Chromium's own line about a request that was refused or did not arrive.
REFUSED = ("Failed to load resource", "net::ERR_")
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
_RECORD_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
# Without the passed rules and their elements, which take much longer to send than to find.
_VIOLATIONS = "axe.run({ resultTypes: ['violations'] }).then((found) => found.violations)"


class Tab:
    """A page in its own context; `faults` are messages of its console, failures of scripts and requests elsewhere."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.faults: list[str] = []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._check)

    def _note(self, message: ConsoleMessage) -> None:
        if not any(words in message.text for words in REFUSED):
            self.faults.append(f"{message.type}: {message.text}")

    def _check(self, request: Request) -> None:
        if not request.url.startswith((self.base, "data:", "blob:")):
            self.faults.append(f"request to {request.url}")

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)

    def sign_in(self, key: str, path: str = "/console") -> None:
        """Sign in as a person does, from the page that needs it."""
        self.open(path)
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(self.base + path)

    def violations(self) -> list[str]:
        """Return the rules of accessibility that the current page breaks, with the elements."""
        self.page.evaluate(AXE)
        found: list[Any] = self.page.evaluate(_VIOLATIONS)
        return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]

    def scrolls_sideways(self) -> bool:
        wider: bool = self.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        return wider


def program() -> str | None:
    """Return the path of an installed Chromium."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def launched(playwright: Playwright, path: str) -> Iterator[Browser]:
    """Start Chromium."""
    # Root needs --no-sandbox; the pages are our own.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    # Without this limit, Chromium starts a spare process for almost each tab. Contexts never share a process.
    options.append("--renderer-process-limit=1")
    browser = playwright.chromium.launch(executable_path=path, args=options)
    yield browser
    browser.close()


@contextmanager
def tab_of(browser: Browser, base: str, **options: Any) -> Iterator[Tab]:
    """Open a tab with options of Playwright, such as `viewport` and `color_scheme`; fails for any fault at its end."""
    context = browser.new_context(**{"viewport": WIDE, "reduced_motion": "reduce"} | options)
    context.set_default_timeout(20_000)
    context.add_init_script(_RECORD_VIOLATIONS)
    try:
        tab = Tab(context.new_page(), base)
        yield tab
        assert tab.faults == [], tab.faults
    finally:
        context.close()
