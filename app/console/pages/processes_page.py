"""Processes: workers, and their drain. The example of app/console/README.md."""

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import change, query
from app.features.control import store
from app.features.control.store import WorkerState
from app.kernel.db.paging import PageRequest
from app.kernel.processes import worker_commands
from app.kernel.processes.worker_commands import CommandKind
from app.web.services import services

MAX_WORKERS = 100

page = ConsolePage("processes", "/processes", "Processes", reads="GET /workers", nav="Processes", shortcut="w")


@page.region("workers", live="workers")
def workers() -> Values:
    """Read the newest workers, in the state of the address."""
    state = query().choice("state", [each.value for each in WorkerState])
    wanted = None if not state else WorkerState(state)
    return {
        "workers": store.page_of_workers(services().database, wanted, PageRequest(MAX_WORKERS)).items,
        "state": state,
        "states": [each.value for each in WorkerState],
    }


@action("POST /workers/<worker_id>/drain")
def drain(worker_id: str) -> Done:
    """Drain a worker."""
    worker_commands.ask(services().database, worker_id, CommandKind.DRAIN, change())
    return Done(f"Asked worker {worker_id} to drain.")
