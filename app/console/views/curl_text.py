"""Requests of the API, and deliveries, as commands of `curl`."""

import shlex
from collections.abc import Mapping
from typing import Any

from app.kernel.formats import compact_json

MAX_ARGUMENT = 100_000
"""Bytes of a part of a command; Linux takes arguments of less than 128 KiB."""
_JSON = "application/json"
_KEY = '-H "Authorization: Bearer $KEY"'
_DATA = "--data-raw"  # `-d @FILE` would send a file of whoever runs the command


def curl_of_read(url: str) -> str:
    """Write a request that reads."""
    return f"curl -sS {shlex.quote(url)} {_KEY}"


def curl_of_delivery(spec: Mapping[str, Any], idempotency_key: str) -> str:
    """Write the delivery of a rendered spec of HTTP; empty if a shell would not take it.

    Each secret stands as `[secret NAME]`; a signature is left out.
    """
    given: dict[str, str] = spec.get("headers") or {}
    body = spec.get("body_template")
    content_type = next((value for name, value in given.items() if name.lower() == "content-type"), None)
    default = {"Content-Type": _JSON} if body is not None and content_type is None else {}
    headers = {"Idempotency-Key": idempotency_key} | default | given
    parts = [str(spec["url"]), *(f"{name}: {value}" if value else f"{name};" for name, value in headers.items())]
    if body is not None:
        # As the dispatcher decides whether a text is JSON.
        takes_text = "json" not in (content_type or _JSON).lower()
        parts.append(body if takes_text and isinstance(body, str) else compact_json(body))
    if any(len(part.encode(errors="replace")) > MAX_ARGUMENT for part in parts):
        return ""
    url, *quoted = map(shlex.quote, parts)
    # Without -g, brackets in an address are patterns.
    lines = [f"curl -sS -g -i -X {shlex.quote(str(spec.get('method', 'POST')))} {url}"]
    lines += [f"-H {each}" for each in quoted[: len(headers)]]
    lines += [f"{_DATA} {each}" for each in quoted[len(headers) :]]
    return " \\\n  ".join(lines)


def curl_of(method: str, url: str, body: Any) -> str:
    """Write a request with a JSON body, empty if a shell would not take it; the key is a variable of the shell."""
    data = compact_json(body)
    if len(data.encode(errors="replace")) > MAX_ARGUMENT:
        return ""
    parts = ["curl", "-sS", *(() if method == "POST" else ("-X", method)), shlex.quote(url)]
    headers = f"{_KEY} -H 'Content-Type: {_JSON}'"
    return f"{' '.join(parts)} \\\n  {headers} \\\n  {_DATA} {shlex.quote(data)}"
