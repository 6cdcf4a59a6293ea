"""The overview: conditions that need a person, figures and charts over time, endpoints by trouble, first steps."""

from datetime import timedelta
from functools import cache

from flask import request

from app.catalog.endpoints import versions
from app.console.http.console_page import ConsolePage, Values
from app.console.http.page_rendering import to
from app.console.pages.breaker_reach import reach_of_breakers
from app.console.pages.chart_changes import changes_in
from app.console.pages.deliveries_page import address_of_deliveries
from app.console.pages.periods import PERIODS, chosen_period
from app.console.views import overview_figures
from app.console.views.attention import attention as conditions
from app.console.views.chart import charts_of
from app.console.views.chart_marks import marks_of
from app.console.views.first_steps import FirstStep, first_steps
from app.console.views.sparkline import sparkline
from app.features.breakers import store as breakers
from app.features.control.shared_figures import shared_figures
from app.features.control.store import WorkerState
from app.features.control.trouble import EndpointOrder, ordered
from app.features.rollups.delivery_history import DeliveryHistory, chosen_step, read_last
from app.features.rollups.text_chart import STEPS_OF_CHARTS
from app.kernel.db.paging import PageRequest
from app.queue.jobs.job_list import JobFilter, page_of_jobs
from app.web.services import services
from schema.states import BreakerState

MAX_ENDPOINTS = 20
MAX_BREAKERS = 20
POINTS = 72  # of a chart
CHARTS = ("deliveries", "lateness")

page = ConsolePage("overview", "", "Overview", reads="GET /stats/figures", nav="Overview", shortcut="o")


@page.show
def show() -> Values:
    return {"window": _window(), "windows": [*PERIODS]}


@page.region("attention", live="breakers flow workers letters jobs")
def attention() -> Values:
    """Read the conditions that need a person."""
    statistics, states = shared_figures().service().statistics, shared_figures().endpoints(PERIODS[_window()]).states
    # Not shared: a breaker that opened is announced once, and one that was closed here is gone at once.
    opened = breakers.page(services().database, BreakerState.OPEN, PageRequest(MAX_BREAKERS)).items
    reach = reach_of_breakers(opened)
    return {"conditions": conditions(statistics, states, [each | {"reach": reach[each["target"]]} for each in opened])}


@page.region("figures", live="rollups")
def figures() -> Values:
    """Read the figures of the window, and their course."""
    return {"figures": overview_figures.figures(_history(), shared_figures().service().statistics)}


@page.region("charts", reads="GET /stats/history", live="rollups")
def charts() -> Values:
    """Draw deliveries and lateness of the window, with marks of changes."""
    history = _history()
    changes = shared_figures().of(changes_in, history.range)
    found = charts_of(history, marks_of(changes.lines, history.range))
    return {
        "charts": [chart for chart in found if chart.name in CHARTS and not chart.is_empty],
        "list_of": cache(address_of_deliveries),  # the charts have the same steps
        "lists": to("deliveries"),
        "window": _window(),
    }


@page.region("endpoints", live="rollups breakers flow letters")
def endpoints() -> Values:
    """Read the endpoints, sorted by trouble."""
    found = shared_figures().endpoints(PERIODS[_window()])
    states = ordered(found.states, EndpointOrder.TROUBLE)
    return {
        "endpoints": states[:MAX_ENDPOINTS],
        "left_out": max(0, len(states) - MAX_ENDPOINTS),
        "sparkline": sparkline,
        "trouble_words": overview_figures.TROUBLES,
        "first_steps": [] if states else _first_steps(),
    }


def _first_steps() -> list[FirstStep]:
    """Return the steps until the first delivery; none once there was a job."""
    database, one = services().database, PageRequest(1)
    has_job = bool(page_of_jobs(database, JobFilter(), one).items)
    statistics = shared_figures().service().statistics
    steps = first_steps(
        request.url_root.rstrip("/"),
        has_worker=bool(statistics.workers.by_state.get(WorkerState.ALIVE)),
        has_endpoint=bool(versions.page(database, one, inline=False).items),
        has_job=has_job,
    )
    return [] if has_job else steps


def _history() -> DeliveryHistory:
    length = PERIODS[_window()]
    step = chosen_step(length, length, points=POINTS, ladder=STEPS_OF_CHARTS)
    return shared_figures().of(_history_of, length, step)


def _history_of(length: timedelta, step_s: int) -> DeliveryHistory:
    return read_last(services().database, length, step_s)


def _window() -> str:
    return chosen_period("window")
