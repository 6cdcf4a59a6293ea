"""Redrive of a dead letter: its execution goes on, or a new job is made of it."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.db import Database
from app.errors import ConflictError
from app.executions.ending import letters
from app.executions.reading.dead_letters import DeadLetter, get_letter
from app.executions.reading.queries import get_execution
from app.executions.retry import redrive_execution
from app.jobs.creation import Creator
from app.jobs.model import NewJob
from app.jobs.queries import get_job
from app.tracing.context import TraceContext
from schema.states import Resolution, Trigger


@dataclass(frozen=True, slots=True)
class Anew:
    """What a new job is made of: an endpoint in its newest version, and an input.

    Where one is None, the endpoint is that of the letter, or the input that of its job. All else is as the job had it,
    except, at another endpoint, its queue and its priority.
    """

    endpoint: str | None = None
    input: dict[str, Any] | None = None


def redrive(
    creator: Creator, letter_id: str, anew: Anew | None, *, actor: str | None, trace: TraceContext | None = None
) -> str:
    """Redrive a letter that is open, which resolves it; returns the queue in which something is due.

    Its execution gets new attempts, as after a manual retry, or with `anew` a new job is made of it, in the same
    transaction. Redriven before in the same way, it stays as it is. Raises DeadLetterNotFoundError, ConflictError for
    one that is resolved otherwise or cannot be retried, and what the creation of a job raises.
    """
    letter = get_letter(creator.database, letter_id)
    if anew is None:
        return redrive_execution(creator.database, letter, actor=actor, trace=trace)

    def body() -> str:
        return _as_new_job(creator, letter, _new_job(creator.database, letter, anew, trace), actor)

    return creator.database.transact_jointly(body)


def _as_new_job(creator: Creator, letter: DeadLetter, new: NewJob, actor: str | None) -> str:
    database, letter_id = creator.database, letter.letter_id

    def is_open(connection: Connection) -> bool:
        return letters.lock_open(connection, letter_id, redriven_as=None)

    had_been = not database.transact(is_open)
    created = creator.create(new)
    execution = created.job.execution
    if execution is None or created.is_new is had_been:
        raise ConflictError(f"The dead letter {letter_id!r} is resolved already: it was redriven otherwise.")
    if not had_been:

        def resolve(connection: Connection) -> bool:
            as_ = execution.execution_id
            return letters.resolve(connection, letter_id, Resolution.REDRIVEN, actor=actor, redriven_as=as_)

        database.transact(resolve)
    return execution.queue


def _new_job(database: Database, letter: DeadLetter, anew: Anew, trace: TraceContext | None) -> NewJob:
    given, endpoint = anew.input, anew.endpoint or letter.endpoint
    old = get_job(database, letter.job_id)
    stays = endpoint == letter.endpoint
    return NewJob(
        endpoint=endpoint,
        trigger=Trigger.IMMEDIATE,
        input=get_execution(database, letter.execution_id).input if given is None else given,
        name=old.name,
        labels=letter.labels or {},
        queue=old.queue if stays else None,
        priority=old.priority if stays else None,
        callbacks=old.callbacks,
        idempotency_key=f"redrive_{letter.letter_id}",
        trace=trace,
    )
