"""Pages: each parses its address, calls stores and services, and returns the variables of its template."""

from app.console.http.console_page import ConsolePage
from app.console.pages import (
    activity_page,
    catalogue_page,
    endpoint_page,
    endpoints_page,
    history_page,
    instant_page,
    keys_page,
    notification_rule_page,
    notifications_page,
    overview_page,
    processes_page,
    routes_page,
    search_page,
    workflow_page,
    workflows_page,
)

PAGES: tuple[ConsolePage, ...] = (
    overview_page.page,
    history_page.page,
    endpoints_page.page,
    endpoint_page.page,
    endpoint_page.edit_page,
    processes_page.page,
    workflows_page.page,
    workflow_page.page,
    workflow_page.retry_page,
    notifications_page.page,
    notification_rule_page.rule_page,
    notification_rule_page.edit_page,
    notification_rule_page.new_page,
    catalogue_page.page,
    catalogue_page.one_page,
    catalogue_page.new_page,
    routes_page.page,
    activity_page.page,
    activity_page.audit_page,
    instant_page.page,
    keys_page.page,
    search_page.page,
)
"""All pages, in the order of the navigation."""
