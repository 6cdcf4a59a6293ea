"""Events of all pages of the list."""

from typing import Any

from tests.integration.client import Api


def events(api: Api, **query: Any) -> list[dict[str, Any]]:
    """Return the events of all current pages."""
    found: list[dict[str, Any]] = []
    query = {"limit": 2} | query
    while True:
        page = api.get("/events", **query)
        assert page.status_code == 200, page.get_data(as_text=True)
        found += page.json["items"]
        if not page.json["items"]:
            return found
        query["after"] = page.json["next"]
