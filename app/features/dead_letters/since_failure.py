"""Changes since a failure, and later ends of the endpoint, to judge a redrive.

All reads are by keys, or bounded.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from app.features.breakers import store as breakers
from app.features.dead_letters.letter_list import get_letter
from app.kernel.db import Database
from app.kernel.db.gathered_reads import run_gathered
from app.kernel.db.reads import Reads, RememberedReads
from app.kernel.formats import escaped, is_same_json, numbered
from app.kernel.function_types import Clock
from app.kernel.sql import read_together, statement
from app.queue.ending.letters import LetterFault

MAX_COUNTED = 100  # later executions of the endpoint, for each of two states
MAX_CHANGES = 50
_PARTS = ("endpoint_type", "spec", "retry_policy", "config_ref", "payload_spec_ref", "keep_response", "callbacks")

VERSIONS = statement(
    "dead_letters.versions",
    """
    SELECT n.version AS newest_version, n.paused_at, n.deleted_at, n.limits,
           v.created_at, v.endpoint_type, v.spec, v.retry_policy, v.config_ref, v.payload_spec_ref, v.keep_response,
           v.callbacks, v.version, v.secret_refs, c.updated_at AS config_updated_at
      FROM endpoints AS n
      JOIN endpoint_versions AS v ON v.endpoint = n.name AND (v.version = :version OR v.version = n.version)
      LEFT JOIN configs AS c ON c.name = v.config_ref
     WHERE n.name = :endpoint ORDER BY v.version
    """,
)
SECRETS_SINCE = statement(
    "dead_letters.secrets_since",
    """
    SELECT name, updated_at FROM secrets
     WHERE name IN (SELECT jsonb_array_elements_text(CAST(:names AS JSONB)))
       AND updated_at > CAST(:at AS TIMESTAMPTZ) ORDER BY name
    """,
)
# Row comparisons instead of `=`: then only idx_executions_ended_of_endpoint has this order, also for several letters.
ENDS_SINCE = statement(
    "dead_letters.ends_since",
    """
    SELECT (SELECT count(*) FROM ({succeeded}) AS s) AS succeeded, (SELECT count(*) FROM ({failed}) AS f) AS failed
    """,
    **{
        name: f"""
      SELECT e.execution_id FROM executions AS e
       WHERE (e.endpoint, e.status, e.created_at) > (CAST(:endpoint AS TEXT), '{status}', CAST(:at AS TIMESTAMPTZ))
         AND (e.endpoint, e.status) <= (CAST(:endpoint AS TEXT), '{status}') AND e.completed_at IS NOT NULL
       ORDER BY e.endpoint, e.status, e.created_at, e.execution_id LIMIT :most"""  # noqa: S608 - constants of this module
        for name, status in (("succeeded", "SUCCESS"), ("failed", "FAILED"))
    },
)
read_together(VERSIONS, endpoint="TEXT", version="BIGINT")
read_together(SECRETS_SINCE, names="TEXT", at="TIMESTAMPTZ")
read_together(ENDS_SINCE, endpoint="TEXT", at="TIMESTAMPTZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One changed place: `kind` is `endpoint`, `config` or `secret`; values only of an endpoint."""

    kind: str
    name: str
    path: str | None = None
    before: Any = None
    after: Any = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinceFailure:
    """Changes and ends since a failure."""

    letter_id: str
    failed_at: datetime
    endpoint: str
    endpoint_version: int
    newest_version: int | None
    is_paused: bool
    is_deleted: bool
    breaker: str | None
    succeeded: int
    failed: int
    changes: list[Difference] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """Return the prospects of a redrive in one sentence."""
        if self.newest_version is None or self.is_deleted:
            return "The endpoint was deleted: redrive it to another endpoint, or archive it."
        if self.breaker is not None:
            return f"The breaker of its target is {self.breaker}: a redrive waits until it closes."
        if self.is_paused:
            return "The endpoint is paused: a redrive waits until it is resumed."
        return f"{self._of_changes()}; {self._of_others()}."

    def _of_changes(self) -> str:
        if any(each.kind == "endpoint" for each in self.changes):
            return (
                f"The endpoint has version {self.newest_version} now, and a retry keeps {self.endpoint_version}: "
                "redrive it as a new job to use the newest"
            )
        if self.changes:
            return f"{numbered(len(self.changes), 'value')} that it uses changed since"
        return "Nothing that it uses has changed"

    def _of_others(self) -> str:
        if self.succeeded:
            return f"{self._counted(self.succeeded)} of its endpoint succeeded since, {self.failed} failed"
        if self.failed:
            return (
                f"{self._counted(self.failed)} of its endpoint failed since, none succeeded: the cause is still there"
            )
        return "no other execution of its endpoint has ended since"

    def _counted(self, number: int) -> str:
        return numbered(number, "later execution", or_more=number >= MAX_COUNTED)


def since_failure(database: Database, letter_id: str) -> SinceFailure:
    """Read the changes and ends since a letter's failure; raises DeadLetterNotFoundError."""
    return _since(database, get_letter(database, letter_id))


def since_failures(
    database: Database, letters: Sequence[LetterFault], *, seconds: float, clock: Clock = time.monotonic
) -> dict[str, SinceFailure]:
    """Read the same of several letters, by letter, with one statement of each kind, until `seconds` are over."""
    until = clock() + seconds
    tasks = {each.letter_id: partial(_since, letter=each) for each in letters}
    order = (VERSIONS, ENDS_SINCE, breakers.OF_ENDPOINT, SECRETS_SINCE)
    known, apart = RememberedReads(database), database.is_cockroach
    return run_gathered(known, tasks, order=order, may_go_on=lambda: clock() < until, apart=apart)


def _since(reads: Reads, letter: LetterFault) -> SinceFailure:
    found = reads.fetch(VERSIONS, {"endpoint": letter.endpoint, "version": letter.endpoint_version})
    versions = sorted(found, key=lambda row: row.version)
    params = {"endpoint": letter.endpoint, "at": letter.failed_at, "most": MAX_COUNTED}
    (ends,) = reads.fetch(ENDS_SINCE, params)
    breaker = breakers.of_endpoint(reads, letter.endpoint)
    newest = versions[-1] if versions else None
    return SinceFailure(
        letter_id=letter.letter_id,
        failed_at=letter.failed_at,
        endpoint=letter.endpoint,
        endpoint_version=letter.endpoint_version,
        newest_version=None if newest is None else newest.newest_version,
        is_paused=newest is not None and newest.paused_at is not None,
        is_deleted=newest is not None and newest.deleted_at is not None,
        breaker=breaker[0].state.lower() if breaker else None,
        succeeded=ends.succeeded,
        failed=ends.failed,
        changes=list(_changes(reads, letter, versions))[:MAX_CHANGES],
    )


def _changes(reads: Reads, letter: LetterFault, versions: Any) -> Iterator[Difference]:
    if not versions:
        return
    then, now = versions[0], versions[-1]
    if then.version == letter.endpoint_version < now.version:
        for part in _PARTS:
            for path, before, after in differences(getattr(then, part), getattr(now, part), part):
                yield Difference(
                    kind="endpoint", name=letter.endpoint, path=path, before=before, after=after, at=now.created_at
                )
    if then.config_updated_at is not None and then.config_updated_at > letter.failed_at:
        yield Difference(kind="config", name=then.config_ref, at=then.config_updated_at)
    names = [name for name in then.secret_refs if isinstance(name, str)] if isinstance(then.secret_refs, list) else []
    params = {"names": json.dumps(names), "at": letter.failed_at}
    for row in reads.fetch(SECRETS_SINCE, params) if names else ():
        yield Difference(kind="secret", name=row.name, at=row.updated_at)


def differences(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the places at which two JSON values differ, as `part/pointer`, with both values; None if absent."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            place = f"{path}/{escaped(str(name))}"
            if name in before and name in after:
                yield from differences(before[name], after[name], place)
            else:  # also if the other side has null
                yield place, before.get(name), after.get(name)
    elif not is_same_json(before, after):
        yield path, before, after
