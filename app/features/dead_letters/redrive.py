"""Redrive of a dead letter: its execution goes on, or a new job is made of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from app.features.dead_letters.letter_list import get_letter
from app.kernel.errors import ConflictError, JobNotFoundError, TaskExecutorError
from app.kernel.tracing.context import TraceContext
from app.queue.ending import letters as dead_letters_store
from app.queue.ending.dead_letter import DeadLetter
from app.queue.executions.manual_retry import redrive_execution
from app.queue.executions.several import Treated
from app.queue.jobs.job_batch import create_many
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import Job, NewJob
from app.queue.jobs.job_queries import find_jobs, get_job
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
        return _as_new_job(
            creator, letter, _new_job(letter, get_job(creator.database, letter.job_id), anew, trace), actor
        )

    return creator.database.transact_jointly(body)


def _as_new_job(creator: Creator, letter: DeadLetter, new: NewJob, actor: str | None) -> str:
    database, letter_id = creator.database, letter.letter_id

    def is_open(connection: Connection) -> bool:
        return dead_letters_store.lock_open(connection, letter_id, redriven_as=None)

    had_been = not database.transact(is_open)
    created = creator.create(new)
    execution = created.job.execution
    if execution is None or created.is_new is had_been:
        raise _redriven_otherwise(letter_id)
    if not had_been:

        def resolve(connection: Connection) -> bool:
            as_ = execution.execution_id
            return dead_letters_store.resolve(connection, letter_id, Resolution.REDRIVEN, actor=actor, redriven_as=as_)

        database.transact(resolve)
    return execution.queue


def redrive_as_new_jobs(creator: Creator, each: Sequence[DeadLetter], endpoint: str, *, actor: str | None) -> Treated:
    """Make a new job for an endpoint of each letter that is open, in the joint transaction of this thread.

    What is refused is named by its letter.
    """
    database, wanted = creator.database, [letter.letter_id for letter in each]
    is_open, refused = database.transact(lambda connection: dead_letters_store.lock_several(connection, wanted))
    jobs = {job.job_id: job for job in find_jobs(database, {letter.job_id for letter in each}, ())}
    found = [letter for letter in each if letter.letter_id in is_open and letter.job_id in jobs]
    gone = {
        letter.letter_id: JobNotFoundError.of(letter.job_id)
        for letter in each
        if letter.letter_id in is_open and letter.job_id not in jobs
    }
    new = [_new_job(letter, jobs[letter.job_id], Anew(endpoint), None) for letter in found]
    made: dict[str, str] = {}
    queues = Counter[str]()
    for letter, outcome in zip(found, create_many(creator, new), strict=True):
        if isinstance(outcome, TaskExecutorError):
            refused[letter.letter_id] = outcome
        elif outcome.job.execution is None or not outcome.is_new:
            refused[letter.letter_id] = _redriven_otherwise(letter.letter_id)
        else:
            made[letter.letter_id] = outcome.job.execution.execution_id
            queues[outcome.job.execution.queue] += 1
    database.transact(lambda connection: dead_letters_store.resolve_as(connection, made, actor=actor))
    return Treated(queues, refused | gone)


def _redriven_otherwise(letter_id: str) -> ConflictError:
    return ConflictError(f"The dead letter {letter_id!r} is resolved already: it was redriven otherwise.")


def _new_job(letter: DeadLetter, old: Job, anew: Anew, trace: TraceContext | None) -> NewJob:
    given, endpoint = anew.input, anew.endpoint or letter.endpoint
    stays = endpoint == letter.endpoint
    return NewJob(
        endpoint=endpoint,
        trigger=Trigger.IMMEDIATE,
        input=old.input if given is None else given,
        name=old.name,
        labels=letter.labels or {},
        queue=old.queue if stays else None,
        priority=old.priority if stays else None,
        callbacks=old.callbacks,
        idempotency_key=f"redrive_{letter.letter_id}",
        trace=trace,
    )
