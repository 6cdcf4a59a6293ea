"""Catalog of a worker: endpoint versions, configs and secrets, cached and rendered.

Only this module and the key rotation decrypt secrets.
"""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from cachetools import LRUCache, TTLCache, cachedmethod

from app.catalog import superseded_configs
from app.catalog.crypto import HOW_TO_READ, VARIABLE, SecretBox, UndecryptableError
from app.catalog.retry_policy import RetryPolicy
from app.catalog.scrub import NO_SECRETS, Scrubber
from app.catalog.specs import TRANSPORTS, compile_spec, target_name
from app.catalog.templates.nodes import SpecTemplate
from app.kernel.db import Database
from app.kernel.errors import TemplateError
from app.kernel.formats import Unreadable, compact_json
from app.kernel.function_types import Clock
from app.kernel.sql import statement
from schema.states import EndpointType, KeepResponse

log = logging.getLogger(__name__)

MAX_VERSIONS = 10_000
MAX_VALUES = 10_000
MAX_SCRUBBER_WEIGHT = 500_000  # some 45 MB

VERSION = statement(
    "loader.version",
    "SELECT endpoint_type, config_ref, spec, retry_policy, keep_response FROM endpoint_versions"
    " WHERE endpoint = :endpoint AND version = :version",
)
NEWEST = statement("loader.newest", "SELECT max(version) AS version FROM endpoint_versions WHERE endpoint = :endpoint")
SECRETS = statement(
    "loader.secrets", "SELECT name, encrypted_value FROM secrets WHERE name = ANY (CAST(:names AS TEXT[]))"
)


class SecretUnreadableError(Exception):
    """This process lacks the key of a secret; another process, or a restart with the key, may succeed."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Attempt that is ready to be sent. The rendered spec holds secrets, so no repr shows it."""

    endpoint_type: EndpointType
    policy: RetryPolicy
    spec: Mapping[str, Any] = field(repr=False)
    scrubber: Scrubber = field(repr=False)
    keep_response: KeepResponse
    target: str
    """Name of the target, without secrets; empty if the spec names no server."""

    def keeps_answer(self, *, failed: bool) -> bool:
        return self.keep_response is KeepResponse.ALWAYS or (failed and self.keep_response is KeepResponse.ON_ERROR)

    def kept(self, outcome: Mapping[str, Any], limit_bytes: int, *, failed: bool) -> dict[str, Any]:
        """Return the part of an output or error that is stored: scrubbed, each text clipped."""
        if "body" in outcome and not self.keeps_answer(failed=failed):
            body = outcome["body"]
            size = len((body if isinstance(body, str) else compact_json(body)).encode(errors="surrogatepass"))
            outcome = {name: value for name, value in outcome.items() if name != "body"} | {"body_bytes": size}
        kept: dict[str, Any] = self.scrubber.scrub(outcome, limit_bytes)
        return kept


class _Target(NamedTuple):
    """Target of a version, by a config and by secrets, each as of a revision; the input never changes the target."""

    config_revision: int
    revision: int
    name: str


@dataclass(slots=True)
class _Version:
    endpoint_type: EndpointType
    config_ref: str | None
    template: SpecTemplate
    policy: RetryPolicy
    keep_response: KeepResponse
    target: _Target | None = None  # as resolved last


class Catalog:
    """Cached reader of the catalog; safe to use from several threads.

    Endpoint versions are immutable and cached for ever. Configs are read as of a catalog revision, and cached for their
    time to live. Secrets are the newest, cached for their time to live or until a claim brings a newer revision.
    """

    def __init__(
        self,
        database: Database,
        box: SecretBox | None,
        *,
        config_ttl_seconds: float,
        secret_ttl_seconds: float,
        clock: Clock = time.monotonic,
    ) -> None:
        self._database = database
        self._box = box
        self._revision = 0
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, int], _Version] = {}  # an LRUCache makes six calls for each attempt
        self._configs = TTLCache[Any, Mapping[str, Any]](MAX_VALUES, config_ttl_seconds, clock)
        self._secrets = TTLCache[Any, Mapping[str, str]](MAX_VALUES, secret_ttl_seconds, clock)
        self._scrubbers = LRUCache[Any, Scrubber](MAX_SCRUBBER_WEIGHT, attrgetter("weight"))
        self._reported: set[str] = set()  # secrets that cannot be decrypted

    def observe(self, revision: int) -> None:
        with self._lock:
            if revision > self._revision:  # claims of several consumers arrive in any order
                self._revision = revision
                self._secrets.clear()  # replaced values leave the memory

    def prepare(self, endpoint: str, number: int, input_: Any, config_revision: int) -> Prepared:
        """Render the spec of an endpoint version for an input, with the config as of a catalog revision.

        Raises TemplateError for a variable that can never be resolved, SecretUnreadableError if this process lacks the
        key of a secret, and UnavailableError when the database fails.
        """
        if isinstance(input_, Unreadable):
            raise TemplateError(f"The input cannot be read: {input_.why}.")
        version = self._version(endpoint, number)
        config = self._config(version.config_ref, config_revision) if version.config_ref else {}
        secrets = self._named_secrets(refs, self._revision) if (refs := version.template.secret_refs) else {}
        try:
            spec = version.template.render(input_, config, secrets)
        except RecursionError:
            raise TemplateError("The input is nested too deeply.") from None
        scrubber = self._scrubber(frozenset(secrets.values())) if secrets else NO_SECRETS
        target = version.target
        if target is None or target.config_revision != config_revision or target.revision != self._revision:
            masked = version.template.masked(input_, config) if secrets else spec
            apart = TRANSPORTS[version.endpoint_type].apart(version.template, config)
            name = target_name(version.endpoint_type, spec, masked, scrubber, apart)
            target = version.target = _Target(config_revision, self._revision, name)
        return Prepared(version.endpoint_type, version.policy, spec, scrubber, version.keep_response, target.name)

    def prepare_newest(self, endpoint: str, revision: int) -> tuple[Prepared, tuple[int, int]]:
        """Render an endpoint's newest version to resolve its target, as of a catalog revision or newer.

        Returns also the version, and the revision of its config. The input never changes the target, so a made-up input
        is used. Raises as `prepare`.
        """
        self.observe(revision)
        as_of = self._revision
        number = self._database.fetch(NEWEST, {"endpoint": endpoint})[0].version or 0
        input_ = self._version(endpoint, number).template.any_input()
        return self.prepare(endpoint, number, input_, as_of), (number, as_of)

    @cachedmethod(attrgetter("_scrubbers"), lock=attrgetter("_lock"))
    def _scrubber(self, secrets: frozenset[str]) -> Scrubber:
        return Scrubber(secrets)

    def _version(self, endpoint: str, number: int) -> _Version:
        if (known := self._versions.get((endpoint, number))) is not None:
            return known
        rows = self._database.fetch(VERSION, {"endpoint": endpoint, "version": number})
        if not rows:
            raise TemplateError(f"Version {number} of the endpoint {endpoint!r} does not exist.")
        row, type_ = rows[0], EndpointType(rows[0].endpoint_type)
        policy = RetryPolicy.from_json(row.retry_policy)
        found = _Version(type_, row.config_ref, compile_spec(type_, row.spec), policy, KeepResponse(row.keep_response))
        with self._lock:
            if len(self._versions) >= MAX_VERSIONS:
                self._versions.clear()
            return self._versions.setdefault((endpoint, number), found)

    @cachedmethod(attrgetter("_configs"), lock=attrgetter("_lock"))
    def _config(self, name: str, revision: int) -> Mapping[str, Any]:
        rows = self._database.fetch(superseded_configs.AS_OF, {"name": name, "revision": revision})
        if not rows:
            raise TemplateError(f"The config {name!r} does not exist.")
        values: Mapping[str, Any] = rows[0].values_json
        return values

    @cachedmethod(attrgetter("_secrets"), lock=attrgetter("_lock"))
    def _named_secrets(self, names: frozenset[str], _revision: int) -> Mapping[str, str]:
        """Read secrets, cached per revision; a missing secret stays absent, and rendering raises for its field."""
        rows = self._database.fetch(SECRETS, {"names": sorted(names)})
        return {row.name: self._decrypt(row.name, row.encrypted_value) for row in rows}

    def _decrypt(self, name: str, token: bytes) -> str:
        if self._box is None:
            raise self._unreadable(name, f"{VARIABLE} is not set in this worker")
        try:
            value = self._box.decrypt(token)
        except UndecryptableError as error:
            raise self._unreadable(name, str(error)) from None
        self._reported.discard(name)
        return value

    def _unreadable(self, name: str, reason: str) -> SecretUnreadableError:
        if name not in self._reported:
            # A missing key is an operator's mistake, and operators read the log.
            log.error(
                "the secret %r cannot be decrypted: %s; deferring executions that need it; %s",
                name,
                reason,
                HOW_TO_READ,
            )
        self._reported.add(name)
        return SecretUnreadableError(f"the secret {name!r} cannot be decrypted: {reason}")
