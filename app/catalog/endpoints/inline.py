"""Inline endpoints: HTTP endpoints that the service registers for jobs that give a URL instead of an endpoint.

The name is a digest of the definition, so equal definitions share an endpoint, and it never changes.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from marshmallow import ValidationError

from app.catalog.endpoints import versions
from app.catalog.endpoints.endpoint_rows import EndpointDefinition
from app.catalog.endpoints.inline_names import IS_INLINE
from app.catalog.retry_policy import RETRY_POLICY
from app.catalog.specs.http import TRANSPORT
from app.kernel.audit import Actor
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.errors import ConflictError, ForbiddenError, InvalidRequestError, TemplateError
from app.kernel.formats import canonical_json, sorted_json
from app.kernel.sql import statement
from schema.inline_bounds import CREDENTIALS, INLINE_PREFIX, MAX_DEFINITION, SECRET_HEADER, USER_IN_URL
from schema.states import EndpointType

SPEC_FIELDS = ("url", "method", "headers", "timeout_ms", "expected_status_codes", "signing")
FIELDS = (*SPEC_FIELDS, "retry_policy")
BODY = "{{input.body}}"
_PLACEHOLDER = "{{"
_HTTP_URL = re.compile(r"^https?://[^/?#]", re.IGNORECASE)

COUNT = statement("inline_endpoints.count", f"SELECT count(*) AS existing FROM endpoints AS e WHERE {IS_INLINE}")  # noqa: S608 - constants


class InlineEndpoint(NamedTuple):
    """A definition, and the name that follows from it."""

    name: str
    definition: EndpointDefinition


def inline_endpoint(given: Mapping[str, Any], *, sends_body: bool) -> InlineEndpoint:
    """Return the endpoint of a request's fields; `sends_body` sends the field `body` of the input.

    Raises ValidationError for faults of the definition, except those that only its registration finds.
    """
    spec = {name: given[name] for name in SPEC_FIELDS if given.get(name) is not None}
    if sends_body:
        spec["body_template"] = BODY
    # A definition in the cache is valid.
    return _checked(sorted_json([spec, given.get("retry_policy")]))


@lru_cache(maxsize=256)  # of up to 160 KB each
def _checked(text: str) -> InlineEndpoint:
    given, policy = json.loads(text)
    if len(canonical_json([given, policy])) > MAX_DEFINITION:
        raise ValidationError({"url": [f"Must have, with its settings, at most {MAX_DEFINITION} characters as JSON."]})
    faults = {**TRANSPORT.spec.validate(given), **_literal_faults(given)}
    if policy is not None and (wrong := _policy_faults(policy)):
        faults["retry_policy"] = wrong
    if faults:
        raise ValidationError(faults)
    spec = TRANSPORT.spec.load(given)
    definition = EndpointDefinition(
        type=EndpointType.HTTP, payload_spec=None, config=None, spec=spec, retry_policy=policy
    )
    return InlineEndpoint(INLINE_PREFIX + sha256(canonical_json([spec, policy]).encode()).hexdigest()[:32], definition)


def _policy_faults(policy: Any) -> Any:
    return RETRY_POLICY.validate(policy) if isinstance(policy, dict) else ["Must be an object."]


def _literal_faults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return faults of templates and secrets, which an inline endpoint cannot have, except the secret of `signing`."""
    faults: dict[str, Any] = {}
    if "url" in spec and not _HTTP_URL.match(str(spec["url"])):
        faults["url"] = ["Must start with http:// or https:// and a host."]
    elif _PLACEHOLDER in str(spec.get("url")):
        faults["url"] = ["Must not be a template: register an endpoint for it, and give its `input`."]
    elif USER_IN_URL.match(str(spec.get("url"))):
        fault = "Must not hold a user or password: store a secret, and register an endpoint that names it."
        faults["url"] = [fault]
    headers = spec.get("headers")
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if _PLACEHOLDER in str(value):
            faults.setdefault("headers", {})[name] = ["Must not be a template: register an endpoint for it."]
        elif SECRET_HEADER.search(name) or CREDENTIALS.match(str(value)):
            fault = "Must not hold a secret in clear text: store a secret, and register an endpoint that names it."
            faults.setdefault("headers", {})[name] = [fault]
    return faults


class InlineEndpoints(NamedTuple):
    """Registration of inline endpoints: at most `maximum`; 0 turns them off."""

    maximum: int
    stuck_timeout_ms: int

    def check_on(self) -> None:
        """Raise ForbiddenError if jobs with `url` are turned off, also for the endpoints that exist."""
        if self.maximum == 0:
            raise ForbiddenError("Jobs with `url` are turned off (TE_MAX_INLINE_ENDPOINTS=0). Register an endpoint.")

    def register(self, database: Database, inline: InlineEndpoint, *, by: Actor) -> None:
        """Register an inline endpoint, unless another request has just done so.

        Raises ConflictError if `maximum` exist, InvalidRequestError, or TemplateError.
        """
        if database.fetch(COUNT)[0].existing >= self.maximum:
            raise ConflictError(
                f"The limit of inline endpoints is reached: {self.maximum} (TE_MAX_INLINE_ENDPOINTS). "
                "Register an endpoint whose URL is a template of the input, and create the job with `endpoint` and "
                "`input`."
            )
        change = AuditedChange(by)
        try:
            versions.create(database, inline.name, inline.definition, change, stuck_timeout_ms=self.stuck_timeout_ms)
        except ConflictError:
            pass  # its name says that it has this definition
        except (InvalidRequestError, TemplateError) as error:
            for each in error.details:
                each["pointer"] = each["pointer"].removeprefix("/spec")
            error.message = error.message.replace(" /spec/", " /")
            raise
