"""Workflows: the list."""

from functools import partial

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.list_pages import shown_page
from app.features.workflows.stored.workflow_list import WorkflowFilter, page_of_workflows
from app.web.services import services
from schema.states import WorkflowStatus

page = ConsolePage("workflows", "/workflows", "Workflows", reads="GET /workflows", nav="Workflows", shortcut="f")


@page.region("list", live="workflows")
def workflows() -> Values:
    """Read a page of workflows, newest first, that match the address."""
    asked, statuses = query(), [each.value for each in WorkflowStatus]
    status, name, label = asked.choice("status", statuses), asked.text("name"), asked.text("label")
    key, _, value = label.partition("=")
    wanted = WorkflowFilter(
        status=WorkflowStatus(status) if status else None,
        name=name or None,
        labels={key: value} if label else None,
    )
    shown = {"status": status, "name": name, "label": label}
    found = shown_page(partial(page_of_workflows, services().database, wanted), shown)
    return {"found": found, "statuses": statuses, **shown}
