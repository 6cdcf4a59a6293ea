"""Pages: each parses its address, calls stores and services, and returns the variables of its template."""

from app.console.http.console_page import ConsolePage
from app.console.pages import overview_page, processes_page, workflow_page, workflows_page

PAGES: tuple[ConsolePage, ...] = (
    overview_page.page,
    processes_page.page,
    workflows_page.page,
    workflow_page.page,
    workflow_page.retry_page,
)
"""All pages, in the order of the navigation."""
