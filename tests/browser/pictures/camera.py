"""Camera: photographs pages of the console in Chromium, as small files."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from tests.browser.tab import Tab, launched, program, tab_of

WIDTH = 1280
SCALE = 2  # pixels of a picture for one of the page, as on dense displays
SCHEMES: Final = ("light", "dark")
_QUALITY = 65  # at two device pixels for each pixel it looks like 82


class Camera:
    """Takes pictures of a signed-in tab into a folder."""

    def __init__(self, tab: Tab, folder: Path) -> None:
        self._tab = tab
        self._folder = folder

    def take(self, name: str, path: str, *, height: int) -> None:
        """Open a page in light and in dark, and write its first `height` pixels."""
        page = self._tab.page
        page.set_viewport_size({"width": WIDTH, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            self._tab.open(path)
            page.wait_for_load_state("load")
            assert page.get_by_text("This part cannot be shown").count() == 0, path
            self._write(self._folder / f"{name}-{scheme}.webp", height)

    def _write(self, path: Path, height: int) -> None:
        # The protocol of Chromium writes WebP, which is a third of a PNG. It takes the scale from the clip.
        session = self._tab.page.context.new_cdp_session(self._tab.page)
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": SCALE}
        taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": _QUALITY, "clip": clip})
        path.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def camera(url: str, key: str, folder: Path) -> Iterator[Camera]:
    """Start Chromium, and sign in to the console."""
    path = program()
    if path is None:
        raise SystemExit("make pictures needs chromium (Debian: apt-get install chromium-headless-shell)")
    with (
        sync_playwright() as playwright,
        launched(playwright, path) as browser,
        tab_of(browser, url) as tab,
    ):
        tab.sign_in(key)
        yield Camera(tab, folder)
