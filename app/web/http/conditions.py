"""Conditional requests (RFC 9110, 13.1), and the actor of a change.

A condition is optional. The transaction of the change checks it, so that only the state known to the client changes.
"""

import re
from typing import Any

from flask import Response, g, request

from app.kernel.audit import Actor
from app.kernel.audit.change import AuditedChange, Condition
from app.web.http.body import invalid
from app.web.http.request_log import current_request_id

_TAG = r'(?:W/)?"[!#-~\x80-\xff]*"'
_WELL_FORMED = re.compile(rf"\*|[ \t,]*{_TAG}(?:[ \t]*,[ \t,]*{_TAG})*[ \t,]*")
MAX_HEADER = 2_000

# For the OpenAPI document.
ETAG = {"ETag": {"description": "tag of this state of the resource", "schema": {"type": "string"}}}
_CONDITION = {"in": "header", "schema": {"type": "string", "example": '"62e3f4-1"'}}
IF_MATCH = _CONDITION | {
    "name": "If-Match",
    "description": "make the change only if the resource has one of these tags; 412 otherwise",
}
IF_NONE_MATCH = _CONDITION | {
    "name": "If-None-Match",
    "description": "answer 304 without a body if the resource has one of these tags",
}
UNCHANGED = {"304": {"description": "The client has this state already."}}


def actor() -> Actor:
    """Return the API key of the current request as the actor for the audit log and the history."""
    return Actor(g.api_key.name, g.api_key.key_id, current_request_id())


def change() -> AuditedChange:
    """Return the actor and the condition of the current request's change."""
    return AuditedChange(actor(), _condition())


def tagged(shown: object, tag: str, status: int = 200) -> tuple[object, int, dict[str, str]]:
    return shown, status, {"ETag": tag}


def unless_known(shown: object, tag: str) -> Any:
    """Return the answer to a GET: the resource, or 304 if the client has this state already."""
    condition = _condition()
    Condition(match=condition.match).check(tag)
    if condition.has(tag):
        return Response(status=304, headers={"ETag": tag})
    return tagged(shown, tag)


def _condition() -> Condition:
    for header in ("If-Match", "If-None-Match"):
        # Werkzeug ignores malformed tags, which would weaken the client's condition.
        text = request.headers.get(header)
        if text is not None and (len(text) > MAX_HEADER or not _WELL_FORMED.fullmatch(text)):
            message = 'Must be * or a list of entity tags, such as "5f-1", "60-2".'
            raise invalid([{"pointer": header, "message": message}])
    return Condition(match=request.if_match, none_match=request.if_none_match)
