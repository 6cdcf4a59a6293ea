"""Fixtures of the browser ring: Debian's Chromium, driven by Playwright, over a stack of real processes.

Without Chromium the ring is skipped. With `TEST_BROWSER=required`, which `.ci/run` sets where it could install
Chromium, it fails.
"""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, StorageState, sync_playwright

from app.dev.stack.runner import Stack
from app.kernel import db
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.browser.tab import Tab, launched, program, tab_of


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; Playwright runs an event loop in this thread, which other modules must not meet."""
    path = program()
    if path is None:
        if os.environ.get("TEST_BROWSER") == "required":
            pytest.fail("there is no chromium, though TEST_BROWSER=required")
        pytest.skip("there is no chromium (Debian: apt-get install chromium-headless-shell)")
    with sync_playwright() as playwright, launched(playwright, path) as found:
        yield found


@pytest.fixture(scope="module")
def stack(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A web process over the database of this module."""
    stack = Stack(
        database_url=module_database_url,
        commands={},
        env={"TE_CONSOLE_COOKIES": "insecure", "TE_WEB_WORKERS": "1"},
        logs=tmp_path_factory.mktemp("logs"),
    )
    try:
        stack.web()
        yield stack
    finally:
        stack.stop(timeout=0)


@pytest.fixture(scope="module")
def database(module_database_url: str) -> Iterator[Database]:
    database = db.connect(module_database_url, pool_size=2, application_name="te-test")
    yield database
    database.close()


@pytest.fixture(scope="module")
def key(database: Database) -> str:
    return api_keys.create(database, "visitor", [Scope.ADMIN], None)


@pytest.fixture(scope="module")
def session(browser: Browser, stack: Stack, key: str) -> StorageState:
    """The cookie of a person who has signed in; its session is shared, so no test with `tab` signs out."""
    with tab_of(browser, stack.url) as tab:
        tab.sign_in(key)
        return tab.page.context.storage_state()


@pytest.fixture
def tab(browser: Browser, stack: Stack, session: StorageState) -> Iterator[Tab]:
    """A tab of a person who has signed in, on the first page."""
    with tab_of(browser, stack.url, storage_state=session) as tab:
        tab.open("/console")
        yield tab
