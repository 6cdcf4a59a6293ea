"""Requests of the API, and deliveries, as commands of `curl`."""

import shlex
from collections.abc import Mapping
from typing import Any

from app.kernel.formats import compact_json

_JSON = "application/json"
_KEY = '-H "Authorization: Bearer $KEY"'


def curl_of_read(url: str) -> str:
    """Write a request that reads."""
    return f"curl -sS {shlex.quote(url)} {_KEY}"


def curl_of_delivery(spec: Mapping[str, Any], idempotency_key: str) -> str:
    """Write the delivery of a rendered spec of HTTP; each secret stands as `[secret NAME]`, a signature is left out."""
    headers: dict[str, Any] = spec.get("headers") or {}
    body = spec.get("body_template")
    has_type = any(name.lower() == "content-type" for name in headers)
    sent = (
        {"Idempotency-Key": idempotency_key} | ({} if body is None or has_type else {"Content-Type": _JSON}) | headers
    )
    lines = [f"curl -sS -i -X {shlex.quote(str(spec.get('method', 'POST')))} {shlex.quote(str(spec['url']))}"]
    lines += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in sent.items()]
    if body is not None:
        lines.append(f"-d {shlex.quote(body if has_type and isinstance(body, str) else compact_json(body))}")
    return " \\\n  ".join(lines)


def curl_of(method: str, url: str, body: Any) -> str:
    """Write a request with a JSON body; the key is a variable of the shell."""
    parts = ["curl", "-sS", *(() if method == "POST" else ("-X", method)), shlex.quote(url)]
    headers = f"{_KEY} -H 'Content-Type: {_JSON}'"
    return f"{' '.join(parts)} \\\n  {headers} \\\n  -d {shlex.quote(compact_json(body))}"
