"""Processes: workers and their drain, actors, queues and their pause, breakers, schedulers and web processes."""

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import change, query
from app.console.pages.breaker_reach import reach_of_breakers
from app.console.views.reach import reach_of_queue
from app.features.actors import store as actors_store
from app.features.breakers import api as breakers_api
from app.features.breakers import store as breakers_store
from app.features.control import store
from app.features.control.reclaimed import reclaimed_from
from app.features.control.shared_figures import shared_figures
from app.features.control.store import WorkerState
from app.features.queues import api as queues_api
from app.features.queues import pauses
from app.features.queues import store as queues_store
from app.kernel.db.paging import PageRequest
from app.kernel.formats import MICROSECOND
from app.kernel.processes import worker_commands
from app.kernel.processes.process_heartbeat import ProcessKind
from app.kernel.processes.worker_commands import CommandKind
from app.web.services import services
from schema.states import BreakerState

MAX_WORKERS, MAX_BREAKERS, MAX_ACTORS = 100, 100, 100

page = ConsolePage("processes", "/processes", "Processes", reads="GET /workers", nav="Processes", shortcut="w")


@page.region("workers", live="workers")
def workers() -> Values:
    """Read the newest workers, in the state of the address."""
    state = query().choice("state", [each.value for each in WorkerState])
    wanted = None if not state else WorkerState(state)
    found = store.page_of_workers(services().database, wanted, PageRequest(MAX_WORKERS)).items
    return {
        "workers": found,
        "reclaimed": reclaimed_from(services().database, found),
        "microsecond": MICROSECOND,
        "state": state,
        "states": [each.value for each in WorkerState],
    }


@page.region("queues", reads="GET /queues", live="flow workers")
def queues() -> Values:
    """Read the queues: pauses of this moment, counts of the last two seconds."""
    found = shared_figures().service().statistics
    return {
        "queues": found.queues,
        "paused": pauses.paused(services().database),
        "left_out": found.queues_left_out,
        "most": queues_store.MAX_DUE,
        "reach_of": reach_of_queue,
    }


@page.region("actors", reads="GET /actors", live="workers")
def actors() -> Values:
    """Read the newest actors, and the processes that offer them."""
    found = actors_store.page_of_actors(services().database, None, PageRequest(MAX_ACTORS))
    return {"actors": found.items, "are_more": found.next is not None}


@page.region("breakers", reads="GET /breakers", live="breakers")
def breakers() -> Values:
    """Read the breakers, open ones first, and the executions that wait for them."""
    found = breakers_store.page(services().database, None, PageRequest(MAX_BREAKERS)).items
    return {
        "breakers": sorted(found, key=lambda each: each["state"] is BreakerState.CLOSED),
        "breaker_reach": reach_of_breakers([each for each in found if each["state"] is not BreakerState.CLOSED]),
    }


@page.region("others", reads="GET /processes")
def others() -> Values:
    """Read the schedulers and web processes."""
    found = store.processes(services().database)
    return {"processes": [each for each in found if each.kind is not ProcessKind.WORKER]}


@action("POST /workers/<worker_id>/drain")
def drain(worker_id: str) -> Done:
    """Drain a worker."""
    worker_commands.ask(services().database, worker_id, CommandKind.DRAIN, change())
    return Done(f"Asked worker {worker_id} to drain.")


@action("POST /queues/<queue>/pause")
def pause_queue(queue: str) -> Done:
    queues_api.pause(queue)
    return Done(f"Paused queue {queue}: running deliveries end, and nothing new is claimed.")


@action("POST /queues/<queue>/resume")
def resume_queue(queue: str) -> Done:
    queues_api.resume(queue)
    return Done(f"Resumed queue {queue}.")


@action("POST /breakers/<target>/close")
def close_breaker(target: str) -> Done:
    breakers_api.close(target)
    return Done(f"Closed the breaker of {target}. Deliveries go out within a second.")
