"""All reads of the API: each GET of the OpenAPI document, with combinations of its filters."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from app.dev.stack.stack_client import Api
from app.kernel.formats import rfc3339
from benchmarks import history

Values = Mapping[str, Sequence[str]]
Query = dict[str, str]

# Example jobs and executions by the name used in labels: the first row of a list with these filters.
_JOBS = {"CRON": {"trigger": "CRON"}, "ENDED": {"status": "RETIRED"}, "DELAYED": {"trigger": "DELAYED"}}
BY_KEY = {"cursor", "workflow"}  # `workflow` reads the nodes of one workflow, and takes no further filter
_EXECUTIONS = {"ENDED": {"status": "SUCCESS"}, "RETRIED": {"status": "FAILED"}, "WAITING": {"status": "PENDING"}}


def reads(api: Api, filters: int) -> Iterator[tuple[str, str]]:
    """Yield the label and the path of each read, with at most `filters` filters.

    Reads of rows that this database does not have are left out.
    """
    places, values = _places(api), example_values()
    values["job_id"] = list(places["job_id"].values())
    for path, item in api.get("/openapi.json")["paths"].items():
        if not _answers_json(item):
            continue
        parameters = item["get"].get("parameters", ())
        values["after"] = values["place" if path == "/events" else "instant"]
        for name, place in _placed(path, places):
            for query in _queries(parameters, values, filters):
                yield _shown(name, query, places), _shown(place, query)
            yield from _later_pages(api, name, place, parameters)


def _answers_json(item: Mapping[str, Any]) -> bool:
    """Return whether a path has a GET with a JSON answer; metrics of the process have none."""
    return "get" in item and "application/json" in item["get"]["responses"]["200"].get("content", ())


def _places(api: Api) -> dict[str, dict[str, str]]:
    """Look up the values of each path parameter, by their name in labels."""
    places: dict[str, dict[str, str]] = {"job_id": {}, "execution_id": {}}
    for kind, filters in (("job", _JOBS), ("execution", _EXECUTIONS)):
        for name, wanted in filters.items():
            for item in api.get(f"/{kind}s", limit=1, **wanted)["items"]:
                places[f"{kind}_id"][name] = item[f"{kind}_id"]
    return places


def _placed(path: str, places: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    parameters = re.findall(r"{(\w+)}", path)
    if any(name not in places for name in parameters):
        return  # rows by key, of the catalog, breakers, workers, dead letters or workflows
    parameter = next(iter(parameters), None)
    for name, value in places[parameter].items() if parameter else (("", ""),):
        yield path.replace(f"{{{parameter}}}", name), path.replace(f"{{{parameter}}}", value)


def example_values() -> dict[str, list[str]]:
    """Return the values to try for filters without an enumeration: common, rare and absent values."""
    now = datetime.now(UTC)
    hour, half, most = (rfc3339(now - timedelta(days=days), "seconds") for days in (1 / 24, 15, history.DAYS - 0.01))
    endpoints = ["history-3", history.RARE_ENDPOINT, history.UNUSED_ENDPOINT]
    return {
        "endpoint": endpoints,
        "status": ["FAILED", "QUEUED,RETRYING"],
        "limit_key": ["nobody"],
        "idempotency_key": ["nobody"],
        "idempotency_key_prefix": ["nobody"],
        "uncertain": ["true"],
        "late_over": ["5s"],
        "group": ["0123456789abcdef"],
        "execution_id": ["exec_nobody"],
        "letter_id": ["letter_nobody,letter_nowhere"],
        "scheduled_after": [hour, half],
        "scheduled_before": [half, most],
        "name": ["report-1", "nobody"],
        "queue": ["http", "nobody"],
        "labels": ["team=team-3", "stage=live", "team=nobody"],
        "created_after": [hour, half],
        "created_before": [half, most],
        "instant": [hour, half],
        "place": [str(int((now - timedelta(hours=1)).timestamp() * 1_000_000))],
        "since": [hour, half],
        "kind": ["execution.failed", "catalogue"],
        "wait": ["0s"],
        "inline": ["true"],
        "is_offered": ["true", "false"],
        "before": [half, most],
        "error_type": ["HTTP_ERROR", "nobody"],
        "failed_after": [hour, half],
        "failed_before": [half, most],
        "actor": ["nobody"],
        "worker_id": ["nobody"],
        "workflow_id": ["nobody"],
        "parent_id": ["nobody"],
        "resource": endpoints,
        "attempt_number": ["1"],
        "limit": ["200"],
        "count": ["100"],
        "seconds": ["60", "3600"],
        "last": ["24h"],
        "from": [hour],
        "until": [rfc3339(now, "seconds")],
        "step": ["3600"],
        "histograms": ["true"],
        "window": ["1h", "24h"],
        "date": [now.date().isoformat()],
        "zone": ["UTC", "Europe/Berlin"],
        "q": ["report", "nobody"],
    }


def _queries(parameters: Sequence[Mapping[str, Any]], values: Values, filters: int) -> Iterator[Query]:
    """Yield no filter, each value of each filter, each pair of values of two filters, …; each with required filters.

    Raises KeyError for an unknown filter.
    """
    tried = {
        each["name"]: each["schema"].get("enum") or values[each["name"]]
        for each in parameters
        if each["in"] == "query" and each["name"] not in BY_KEY
    }
    required = [each["name"] for each in parameters if each.get("required") and each["name"] in tried]
    for count in range(filters + 1):
        for names in itertools.combinations([name for name in tried if name not in required], count):
            for chosen in itertools.product(*(tried[name] for name in (*required, *names))):
                yield dict(zip((*required, *names), chosen, strict=True))


def _later_pages(api: Api, name: str, place: str, parameters: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the second page of a list, and the page behind its oldest rows."""
    names = {each["name"] for each in parameters}
    for page, query in (("PAGE-2", {}), ("OLDEST", {"created_before": example_values()["created_before"][-1]})):
        if names >= {"cursor", *query} and (cursor := api.get(place, **query).get("cursor")):
            yield f"{name}?cursor={page}", _shown(place, query | {"cursor": cursor})


def _shown(path: str, query: Query, places: Mapping[str, Mapping[str, str]] | None = None) -> str:
    if places is not None and "job_id" in query:
        query = query | {"job_id": next(name for name, id_ in places["job_id"].items() if id_ == query["job_id"])}
    return f"{path}?{urlencode(query, safe='=:')}" if query else path
