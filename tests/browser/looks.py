"""Looks of the console, and what holds for a page in each of them: rules of accessibility, and a width that fits."""

import os
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.tab import PHONE, WIDE, Tab, tab_of
from tests.cases import Breaches, choice_of

SHOTS = os.environ.get("TEST_SHOTS")  # a folder for pictures of the pages, to look at
LOOKS = list(product(("light", "dark"), (WIDE, PHONE)))


def check_pages(browser: Browser, base: str, key: str, paths: Mapping[str, str]) -> None:
    """Check each page, given by name and path, in one look at random; in all looks with TEST_FUZZ=1."""
    looks = {name: choice_of(LOOKS, len(LOOKS)) for name in paths}
    # One tab for all looks: a tab and its sign-in take longer than a page.
    with Breaches() as breaches, tab_of(browser, base) as tab:
        tab.sign_in(key)
        for scheme, size in LOOKS:
            tab.page.emulate_media(color_scheme=scheme)
            tab.page.set_viewport_size(size)
            for name in (name for name in paths if (scheme, size) in looks[name]):
                with breaches.case(name, scheme, size["width"]):
                    _check(tab, paths[name], f"{name}-{scheme}-{size['width']}")


def _check(tab: Tab, path: str, title: str) -> None:
    tab.open(path)
    if SHOTS:
        tab.page.screenshot(path=Path(SHOTS) / f"{title}.png", full_page=True)
    expect(tab.page.get_by_text("This part cannot be shown")).to_have_count(0)
    assert tab.violations() == []
    assert not tab.scrolls_sideways(), "the page scrolls sideways"
