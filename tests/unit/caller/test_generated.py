"""Generated modules of the client: up to date with the OpenAPI document, and equal for sync and async."""

import re
from typing import Any

import pytest
import task_executor_client

from client.generator.__main__ import FOLDER
from client.generator.modules import modules_of
from client.generator.operations import operations_of
from client.generator.types import type_of
from tests.integration.http.document import document


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return modules_of(document())


def test_generated_modules_match_the_document(written: dict[str, str]) -> None:
    """After a change of an operation, run `make client`."""
    stale = [name for name, text in written.items() if (FOLDER / name).read_text() != text]
    assert stale == [], "run `make client` and commit the files that it writes"


def test_synchronous_module_is_the_asynchronous_module_without_await(written: dict[str, str]) -> None:
    plain = re.sub(
        r"async def|await |Async|async_",
        lambda found: "def" if "def" in found[0] else "",
        written["async_operations.py"],
    )
    assert re.sub(r"\s+|,(?=\s*\))", "", plain).replace("asynchronous", "synchronous") == re.sub(
        r"\s+|,(?=\s*\))", "", written["operations.py"]
    )


def test_every_operation_can_be_called() -> None:
    """Each operation of the document is a method of its group, in both clients."""
    found = operations_of(document())
    paths = document()["paths"]
    assert len(found) == sum(1 for path in paths.values() for method in path if method != "parameters")
    for class_ in (task_executor_client.Client, task_executor_client.AsyncClient):
        for operation in found:
            group = getattr(class_("http://127.0.0.1:9", "key"), operation.group)
            assert callable(getattr(group, operation.name))


def test_every_error_code_has_its_class() -> None:
    codes = set(re.findall(r'"([A-Z_]+)": \w+Error', (FOLDER / "errors.py").read_text()))
    assert {"JOB_NOT_FOUND", "RATE_LIMITED", "URI_TOO_LONG", "SERVICE_UNAVAILABLE"} < codes
    assert issubclass(task_executor_client.errors.JobNotFoundError, task_executor_client.errors.NotFoundError)


@pytest.mark.parametrize(
    ("schema", "sent", "read"),
    [
        ({"type": ["string", "null"], "format": "date-time"}, "str | datetime | None", "str | None"),
        ({"enum": ["a", None]}, 'Literal["a"] | None', 'Literal["a"] | None'),
        ({"type": "array", "items": {"$ref": "#/x/Y"}}, "Sequence[models.Y]", "list[models.Y]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "Mapping[str, int]", "dict[str, int]"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/x/Y"}, {"type": "string"}]}, *["models.Y | str | None"] * 2),
        ({"anyOf": [{}, {"type": "string"}]}, "Any", "Any"),
        ({}, "Any", "Any"),
    ],
)
def test_schema_becomes_a_python_type(schema: dict[str, Any], sent: str, read: str) -> None:
    assert type_of(schema, sent=True, models="models.") == sent
    assert type_of(schema, sent=False, models="models.") == read
