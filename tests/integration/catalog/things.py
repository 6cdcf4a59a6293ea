"""Things of the catalogue, one of each kind, for tests that treat them all alike."""

from typing import Any

import pytest

from tests.integration.client import Api
from tests.integration.registered import SCHEMA, http_endpoint

# Path, what creates the thing `x`, and what changes it.
THINGS = [
    ("/payload-specs", {"schema": SCHEMA}, {"schema": {"type": "object"}}),
    ("/configs", {"values": {"a": 1}}, {"values": {"a": 2}}),
    ("/secrets", {"value": "value-one"}, {"value": "value-two"}),
    ("/endpoints", http_endpoint("x"), http_endpoint("x", retry_policy={"max_attempts": 2})),
]
ALL = pytest.mark.parametrize(("path", "one", "two"), THINGS, ids=[path for path, *_ in THINGS])


def make(api: Api, path: str, body: dict[str, Any]) -> str:
    """Create the thing and return its tag."""
    response = api.post(path, body | {"name": "x"})
    assert response.status_code == 201, response.get_data(as_text=True)
    tag: str = response.headers["ETag"]
    return tag
