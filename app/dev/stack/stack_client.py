"""Client of the REST API for the demo, the verifier, tests and benchmarks, and definitions to register."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import requests

from schema.states import EndpointType

_TIMEOUT_SECONDS = 60

Fields = dict[str, Any]


class ApiError(RuntimeError):
    """Request refused by the API."""

    def __init__(self, response: requests.Response) -> None:
        self.status = response.status_code
        self.code = ""
        message = response.text[:300]
        try:
            error = response.json()["error"]
            self.code, message = error["code"], error["message"]
        except (ValueError, LookupError, TypeError):
            pass
        request = response.request
        super().__init__(f"{request.method} {request.path_url} answered {self.status} {self.code}: {message}")


class Api:
    """JSON client with an API key; errors raise ApiError."""

    def __init__(self, base_url: str, key: str) -> None:
        self.base_url = base_url
        self.key = key
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy for the local machine
        self._session.headers["Authorization"] = f"Bearer {key}"

    def close(self) -> None:
        self._session.close()

    def request(self, method: str, path: str, **options: Any) -> requests.Response:
        """Send a request and return the answer with any status."""
        options.setdefault("timeout", _TIMEOUT_SECONDS)
        return self._session.request(method, self.base_url + path, **options)

    def get(self, path: str, **query: Any) -> Any:
        return self._json(self.request("GET", path, params=query))

    def post(self, path: str, body: Any = None) -> Any:
        return self._json(self.request("POST", path, json=body))

    def put(self, path: str, body: Any) -> Any:
        return self._json(self.request("PUT", path, json=body))

    def delete(self, path: str) -> None:
        self._json(self.request("DELETE", path))

    def items(self, path: str, **query: Any) -> Iterator[Any]:
        """Yield the items of all pages of a list."""
        while True:
            page = self.get(path, **query)
            yield from page["items"]
            if not page.get("cursor"):
                return
            query["cursor"] = page["cursor"]

    @staticmethod
    def _json(response: requests.Response) -> Any:
        if not response.ok:
            raise ApiError(response)
        return response.json() if response.content else None


@dataclass(frozen=True, slots=True)
class Definition:
    """POST that registers a definition; `why` describes its purpose."""

    path: str
    body: Fields
    why: str = ""

    @property
    def name(self) -> str:
        return str(self.body["name"])


def register(api: Api, definitions: Iterable[Definition]) -> None:
    """Register definitions in the given order."""
    for definition in definitions:
        api.post(definition.path, definition.body)


def endpoint(type_: EndpointType, name: str, spec: Fields, why: str = "", **fields: Any) -> Definition:
    """Define an endpoint with additional `fields`."""
    return Definition("/endpoints", {"name": name, "type": type_.value, "spec": spec} | fields, why)
