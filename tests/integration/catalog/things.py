"""One resource of each kind in the catalog, for tests that apply to all kinds."""

from typing import Any

import pytest

from tests.integration.client import Api
from tests.integration.registered import SCHEMA, http_endpoint

# Path of the kind, body that creates the resource `x`, body that changes it.
RESOURCES = [
    ("/payload-specs", {"schema": SCHEMA}, {"schema": {"type": "object"}}),
    ("/configs", {"values": {"a": 1}}, {"values": {"a": 2}}),
    ("/secrets", {"value": "value-one"}, {"value": "value-two"}),
    ("/endpoints", http_endpoint("x"), http_endpoint("x", retry_policy={"max_attempts": 2})),
]
EACH_RESOURCE = pytest.mark.parametrize(("path", "one", "two"), RESOURCES, ids=[path for path, *_ in RESOURCES])


def make(api: Api, path: str, body: dict[str, Any]) -> str:
    """Create the resource `x` and return its ETag."""
    response = api.post(path, body | {"name": "x"})
    assert response.status_code == 201, response.get_data(as_text=True)
    tag: str = response.headers["ETag"]
    return tag
