"""Pages: each parses its address, calls stores and services, and returns the variables of its template."""

from app.console.http.console_page import ConsolePage
from app.console.pages import (
    activity_page,
    archive_page,
    bulk_page,
    catalogue_page,
    deliveries_page,
    doctor_page,
    endpoint_editor_page,
    endpoint_new_page,
    endpoint_page,
    endpoints_page,
    execution_page,
    executions_page,
    history_page,
    instant_page,
    job_page,
    jobs_page,
    keys_page,
    letter_page,
    letters_page,
    new_job_page,
    overview_page,
    processes_page,
    redrive_page,
    routes_page,
    schedule_editor_page,
    schedules_bulk_page,
    schedules_page,
    search_page,
    spread_page,
    time_zone_page,
    uncertain_page,
    walks_page,
    workflow_page,
    workflows_page,
)
from app.console.pages import job_actions as _job_actions  # noqa: F401 - registers its actions
from app.features import FEATURES

_PAGES: tuple[ConsolePage, ...] = (
    overview_page.page,
    executions_page.page,
    execution_page.page,
    bulk_page.page,
    uncertain_page.page,
    deliveries_page.page,
    walks_page.page,
    jobs_page.page,
    new_job_page.page,
    job_page.page,
    schedules_page.page,
    schedules_bulk_page.page,
    spread_page.page,
    schedule_editor_page.page,
    history_page.page,
    letters_page.page,
    letter_page.page,
    redrive_page.page,
    archive_page.page,
    endpoints_page.page,
    endpoint_new_page.page,
    endpoint_page.page,
    endpoint_page.edit_page,
    endpoint_editor_page.page,
    processes_page.page,
    doctor_page.page,
    workflows_page.page,
    workflow_page.page,
    workflow_page.retry_page,
    catalogue_page.page,
    catalogue_page.one_page,
    catalogue_page.new_page,
    routes_page.page,
    activity_page.page,
    activity_page.audit_page,
    instant_page.page,
    keys_page.page,
    search_page.page,
    time_zone_page.page,
)
"""Pages of the console itself, in the order of the navigation."""


def all_pages() -> list[ConsolePage]:
    """Return all pages in the order of the navigation.

    A page of a feature follows the page `after`, else the page before it in the list of its feature, else all pages.
    """
    found = list(_PAGES)
    for feature in FEATURES:
        place = len(found)
        for page in feature.pages():
            place = next((number for number, each in enumerate(found, 1) if each.name == page.after), place)
            found.insert(place, page)
            place += 1
    return found
