"""Every operation, tested by schemathesis with valid and invalid requests.

Checks: no 5xx, no undocumented answer, no invalid request accepted, no data without a key. `make test` tries a part of
the operations, at random.
"""

import itertools
import re
from collections.abc import Callable, Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks
from schemathesis.config import SchemathesisConfig
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.schemas import BaseSchema
from sqlalchemy import text

from app.kernel.config import Settings
from tests import rows
from tests.cases import choice_of, each_case
from tests.integration.client import SECRET_KEY, Api, administrator, running, services
from tests.integration.http.document import document
from tests.integration.registered import created, cron, http_endpoint, one_shot, register_all

# A batch with too many jobs may also have too many bytes: 413 is a valid refusal.
REFUSALS = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
config = SchemathesisConfig.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}})
OPERATIONS = [
    (method.upper(), path) for path, found in document()["paths"].items() for method in found if method != "parameters"
]
WITH_PATH = [(method, path) for method, path in OPERATIONS if "{" in path]

NUMBERS = itertools.count()
NAME = "thing"
NAMED = {
    "/payload-specs": {"name": NAME, "schema": {}},
    "/configs": {"name": NAME, "values": {}},
    "/secrets": {"name": NAME, "value": "value-v"},
    "/endpoints": http_endpoint(NAME),
    "/notification-rules": {"name": NAME, "events": ["execution.failed"], "channels": [NAME], "endpoint": "x-*"},
}
pytestmark = [pytest.mark.fuzz, pytest.mark.timeout(900)]
Call = Callable[[schemathesis.Case], None]
TARGET = "http:nobody:80"
BULK = {"action": "retry", "wanted": {}, "all": True}


@pytest.fixture(scope="module")
def known(module_database_url: str) -> Iterator[Api]:
    """Return a client of an application with a catalog and short waits, since nothing is ever delivered."""
    served = Settings(
        database_url=module_database_url,
        secret_encryption_key=SECRET_KEY,
        db_pool_size=4,
        rate_limit_bad_keys="9999/second",
    )
    with running(served) as app:
        services(app).waits.max_blocked_seconds = 0.02
        api = administrator(app)
        register_all(api)
        yield api


@pytest.fixture(scope="module")
def schema(known: Api) -> BaseSchema:
    schema = schemathesis.openapi.from_dict(document(), config=config)
    schema.app = known.app
    return schema


@pytest.fixture(scope="module")
def call(known: Api) -> Call:
    # The document does not describe references and idempotency, so a valid request may be refused. /jobs/batch also
    # matches the path of a job, so OPTIONS lists the methods of both.
    lenient = [schemathesis.checks.positive_data_acceptance, schemathesis.checks.allow_header_conformance]
    headers = {"Authorization": f"Bearer {known.key}"}

    def call(case: schemathesis.Case) -> None:
        unsent = (
            [] if all(map(is_in_url, (case.query or {}).values())) else [schemathesis.checks.negative_data_rejection]
        )
        case.call_and_validate(headers=headers, excluded_checks=lenient + unsent)

    return call


def is_in_url(value: object) -> bool:
    """Return whether a query parameter appears in the URL; an unknown parameter without a value does not."""
    return any(item is not None for item in (value if isinstance(value, list | dict) else [value]))


def add_resources(known: Api) -> dict[str, str]:
    """Return path parameters of existing resources; recreate resources that the previous operation deleted."""
    for path, body in NAMED.items():
        known.post(path, body)
    job = created(known, one_shot(f"k-{next(NUMBERS)}"))
    created(known, cron())
    open_breaker(known)
    job_parameters = {"job_id": job["job_id"], "execution_id": job["execution"]["execution_id"]}
    letter = rows.add_letter(services(known.app).database)
    workflow = known.post("/workflows", {"name": "thing", "nodes": [{"name": "node"}]}).json["workflow_id"]
    return (
        job_parameters
        | {"workflow_id": workflow, "node": "node"}
        | {"name": NAME, "version": "1", "target": TARGET, "queue": "http", "worker_id": "nobody", "letter_id": letter}
        | {"redrive_id": known.post("/redrives", {"wanted": {}, "all": True}).json["redrive_id"]}
        | {"operation_id": known.post("/bulk-operations", BULK).json["operation_id"]}
    )


def open_breaker(known: Api) -> None:
    """Open the breaker of the target directly in the database, since no operation opens a breaker."""
    opened = "'open', 'FAILURES', now() + INTERVAL '1 hour', now() + INTERVAL '1 hour'"
    add = f"INSERT INTO breakers (target, state, reason, open_until, watched_until) VALUES (:target, {opened})"
    again = "ON CONFLICT (target) DO UPDATE SET state = 'open' RETURNING target"
    services(known.app).database.fetch(text(f"{add} {again}"), {"target": TARGET})


def try_out(schema: BaseSchema, method: str, path: str, *, count: int, call: Call) -> None:
    """Call one operation with the cases generated from its description, and with `count` random cases.

    `schema.parametrize()` does the same during collection, which would take each process of a test run longer than
    the collection of all other files together.
    """
    few = settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )

    @few
    def run_case(case: schemathesis.Case) -> None:
        call(case)

    load_all_checks()
    selected = schema.include(method=method, path=path)
    # Reuse the literals of the code under test: to collect them again takes longer than many operations.
    selected._constants_pool_cache = schema._constants_pool_cache  # noqa: SLF001 - a copy starts without the literals
    (found,) = get_all_tests(schema=selected, test_func=run_case, settings=None, given_kwargs=None)
    schema._constants_pool_cache = selected._constants_pool_cache  # noqa: SLF001
    _operation, test = found.ok()
    test()


@each_case(("method", "path"), choice_of(OPERATIONS, 16))
def test_generated_cases_match_the_document(method: str, path: str, schema: BaseSchema, call: Call) -> None:
    try_out(schema, method, path, count=20, call=call)


def test_each_parameter_of_a_path_has_an_existing_resource(known: Api) -> None:
    parameters = {name for _, path in WITH_PATH for name in re.findall(r"{(\w+)}", path)}
    assert parameters <= add_resources(known).keys()


@each_case(("method", "path"), choice_of(WITH_PATH, 18))
def test_generated_cases_on_existing_resources_match_the_document(
    method: str, path: str, schema: BaseSchema, call: Call, known: Api
) -> None:
    existing = add_resources(known)

    def call_existing(case: schemathesis.Case) -> None:
        case.path_parameters = {name: existing[name] for name in case.path_parameters}
        call(case)

    try_out(schema, method, path, count=12, call=call_existing)
