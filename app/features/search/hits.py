"""Hits of a word: rows of any table with this word as id, name, key, label, worker or target."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from app.features.search.store import IDS, JOBS, KEYS, MAX_HITS, NAMES, PLACES, WORKFLOWS
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.formats import compact_json
from app.queue.jobs.job_list import JobFilter, page_of_jobs
from schema.job_bounds import LABEL_KEY, LABEL_VALUE

MAX_WORD = 200


class HitKind(StrEnum):
    EXECUTION = "execution"
    JOB = "job"
    SCHEDULE = "schedule"
    WORKFLOW = "workflow"
    DEAD_LETTER = "dead_letter"
    REDRIVE = "redrive"
    BULK_OPERATION = "bulk_operation"
    ENDPOINT = "endpoint"
    PAYLOAD_SPEC = "payload_spec"
    CONFIG = "config"
    SECRET = "secret"
    NOTIFICATION_RULE = "notification_rule"
    BREAKER = "breaker"
    WORKER = "worker"


class Matched(StrEnum):
    """Field of a hit that matches."""

    ID = "id"
    KEY = "key"
    NAME = "name"
    LABEL = "label"
    TARGET = "target"
    URL = "url"
    HOST = "host"


class Hit(NamedTuple):
    """A row; `id` is its id or its name, `title` describes it."""

    kind: HitKind
    id: str
    title: str | None
    matched: Matched


_RANK = {matched: rank for rank, matched in enumerate(Matched)}
_ORDER = {kind: rank for rank, kind in enumerate(HitKind)}


def hits(database: Database, word: str) -> list[Hit]:
    """Return the rows that match, at most MAX_HITS of a kind and field; whole matches come first."""
    found = dict.fromkeys(_found(database, word))
    return sorted(found, key=lambda hit: (word not in (hit.id, hit.title), _RANK[hit.matched], _ORDER[hit.kind]))


def _found(database: Database, word: str) -> Iterator[Hit]:
    labels = _labels(word)
    params = {
        "word": word,
        "pattern": f"%{_escaped(word.lower())}%",
        "labels": None if labels is None else compact_json(labels),
    }
    for statement in (IDS, NAMES, PLACES, JOBS, KEYS, WORKFLOWS):
        for row in database.fetch(statement, params):
            yield Hit(HitKind(row.kind), row.id, row.title, Matched(row.matched))
    if labels is not None:
        for job in page_of_jobs(database, JobFilter(labels=labels), PageRequest(MAX_HITS)).items:
            yield Hit(HitKind.JOB, job.job_id, job.name or job.endpoint, Matched.LABEL)


def _labels(word: str) -> dict[str, str] | None:
    """Return the label that a word such as `team=billing` may be."""
    key, sign, value = word.partition("=")
    return {key: value} if sign and LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value) else None


def _escaped(text: str) -> str:
    """Escape a text for LIKE."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
