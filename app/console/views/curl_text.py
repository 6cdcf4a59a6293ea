"""Requests of the API as commands of `curl`."""

import shlex
from typing import Any

from app.kernel.formats import compact_json


def curl_of(method: str, url: str, body: Any) -> str:
    """Write a request with a JSON body; the key is a variable of the shell."""
    parts = ["curl", "-sS", *(() if method == "POST" else ("-X", method)), shlex.quote(url)]
    headers = "-H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json'"
    return f"{' '.join(parts)} \\\n  {headers} \\\n  -d {shlex.quote(compact_json(body))}"
