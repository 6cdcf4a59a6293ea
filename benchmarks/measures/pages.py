"""Pages of the console over a long history: time of the server, and what their statements read. PostgreSQL only.

`python -m benchmarks.measures.pages URL` measures them on any database that `benchmarks.history` has filled.
"""

import argparse
import html
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import create_engine, event, text

from app.console.pages import all_pages
from app.features.control import shared_figures
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.web.application import create_app
from app.web.services import EXTENSION, Services
from benchmarks import history_traces
from benchmarks.console_addresses import addresses
from benchmarks.report.results import Figure
from benchmarks.report.run import Run
from benchmarks.statement_costs import Statement, StatementCost, costs, is_setting
from schema.url import database_url

PAGE_MS, REGION_MS, MAX_STATEMENTS = 300, 100, 12
NAMED_BLOCKS = 2_000  # statements that read more are printed
_REGION = re.compile(r'data-etag="[^"]*"[^>]*hx-get="([^"]*)"')
_OWN = {"Sec-Fetch-Site": "same-origin"}


@dataclass(frozen=True, slots=True)
class Reading:
    """Milliseconds of the first and of later requests, of these in the process itself, and statements.

    The first request also reads the figures that a process reads once in a few seconds for all its viewers.
    """

    address: str
    first_ms: float
    again_ms: float
    cpu_ms: float
    first: Sequence[StatementCost]
    again: int

    @property
    def is_over(self) -> bool:
        most = REGION_MS if "region=" in self.address else PAGE_MS
        return self.again_ms > most or self.again > MAX_STATEMENTS


@dataclass(frozen=True, slots=True)
class Probe:
    """A signed-in browser of an application, the statements that the application sends, and a further connection."""

    app: Flask
    browser: FlaskClient
    sent: list[Statement]
    connection: Any

    def readings(self, places: Mapping[str, str], rounds: int) -> Iterator[Reading]:
        """Request each page and each of its regions."""
        for page in all_pages():
            for address in addresses(places, page.name):
                shown = self.browser.get(address).get_data(as_text=True)
                for each in (address, *map(html.unescape, _REGION.findall(shown))):
                    yield self.reading(each, rounds)

    def reading(self, address: str, rounds: int) -> Reading:
        """Request an address once, and then `rounds` times."""
        self.app.extensions.pop(shared_figures.EXTENSION, None)
        first_ms, _ = self._request(address)
        first = list(self.sent)
        took, used = zip(*(self._request(address) for _ in range(rounds)), strict=True)
        # A setting before a chunk of a list reads nothing.
        again = sum(not is_setting(text) for text, _ in self.sent)
        found = costs(self.connection, first)
        return Reading(address, first_ms, statistics.median(took), statistics.median(used), found, again)

    def _request(self, address: str) -> tuple[float, float]:
        """Return the milliseconds of a request, and of these in the process itself."""
        self.sent.clear()
        began, busy = time.perf_counter(), time.thread_time()
        answer = self.browser.get(address)
        took = (time.perf_counter() - began) * 1000, (time.thread_time() - busy) * 1000
        if answer.status_code != 200:
            raise RuntimeError(f"{address} answered {answer.status_code}: {answer.get_data(as_text=True)[:1000]}")
        return took


def measure(run: Run, url: str, rounds: int) -> None:
    """Request all pages and regions of the console, and show what each cost."""
    with create_engine(database_url(url), isolation_level="AUTOCOMMIT").connect() as connection:
        history_traces.leave(connection)
        places = _places(connection)
    with _application(url) as (app, sent), closing(psycopg2.connect(url)) as explained:
        browser = _signed_in(app, places)
        readings = [*Probe(app, browser, sent, explained).readings(places, rounds)]
    section = run.section(f"Pages of the console and their regions: {len(readings)} addresses")
    for reading in sorted(readings, key=lambda each: -each.again_ms):
        row = Figure(("! " if reading.is_over else "") + reading.address, "")
        section.add(row, "first, ms", reading.first_ms)
        section.add(row, "again, ms", reading.again_ms)
        section.add(row, "CPU, ms", reading.cpu_ms)
        section.add(row, "statements", reading.again)
        section.add(row, "first, statements", len(reading.first))
        section.add(row, "rows", sum(each.rows for each in reading.first))
        section.add(row, "blocks", sum(each.blocks for each in reading.first))
    for reading in readings:
        for cost in reading.first:
            if cost.blocks > NAMED_BLOCKS:
                run.remark(f"{reading.address}: {cost.blocks:,} blocks, {cost.rows:,} rows: {cost.text}")


@contextmanager
def _application(url: str) -> Iterator[tuple[Flask, list[Statement]]]:
    """Build the application on a database, with the list of the statements that it sends."""
    app = create_app(Settings(database_url=url))
    services: Services = app.extensions[EXTENSION]
    sent: list[Statement] = []

    def record(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        sent.append((statement, parameters))

    event.listen(services.database.engine, "before_cursor_execute", record)
    yield app, sent
    services.waits.stop()
    services.database.close()


def _signed_in(app: Flask, places: dict[str, str]) -> FlaskClient:
    """Return a browser that is signed in, after it made a config, a rule and a workflow."""
    browser = app.test_client()
    key = api_keys.create(app.extensions[EXTENSION].database, "pages", [Scope.ADMIN], None)
    nodes = [{"name": f"n{number}", "endpoint": places["endpoint"], "delay": "30d"} for number in range(100)]
    rule = {"events": ["execution.failed"], "channels": [places["endpoint"]], "all": True}
    for path, body in (
        ("/configs", {"values": {"base": "http://127.0.0.1:9"}}),
        ("/notification-rules", rule),
        ("/workflows", {"nodes": nodes}),
    ):
        answer = browser.post(path, json={"name": places["name"]} | body, headers={"Authorization": f"Bearer {key}"})
        if answer.status_code not in {201, 404, 409}:  # made by an earlier run, or of a removed feature
            raise RuntimeError(f"{path}: {answer.get_data(as_text=True)}")
        places["workflow_id"] = (answer.json or {}).get("workflow_id", "")
    browser.post("/console/sign-in", data={"key": key}, headers=_OWN)
    return browser


_PLACES = text(
    """
    SELECT (SELECT execution_id FROM executions WHERE status = 'FAILED' ORDER BY created_at DESC LIMIT 1)
             AS execution_id,
           (SELECT job_id FROM jobs WHERE idempotency_key = 'history-cron') AS job_id,
           (SELECT letter_id FROM dead_letters WHERE resolved_at IS NULL ORDER BY failed_at DESC LIMIT 1) AS letter_id
    """
)


def _places(connection: Any) -> dict[str, str]:
    """Return a value for each part of a path."""
    found: dict[str, str] = connection.execute(_PLACES).one()._asdict()
    return found | {"endpoint": "history-3", "name": "history-3", "kind": "configs", "instant": "now"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measures.pages", description=__doc__)
    parser.add_argument("url", help="URL of a database that benchmarks.history has filled")
    parser.add_argument("--rounds", type=int, default=5, help="requests after the first")
    options = parser.parse_args()
    run = Run("pages")
    measure(run, options.url, options.rounds)
    print(run.text())


if __name__ == "__main__":
    main()
