"""Pages: each parses its address, calls stores and services, and returns the variables of its template."""

from app.console.http.console_page import ConsolePage
from app.console.pages import overview_page, processes_page

PAGES: tuple[ConsolePage, ...] = (overview_page.page, processes_page.page)
"""All pages, in the order of the navigation."""
