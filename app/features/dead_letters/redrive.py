"""Redrive of a dead letter: its execution is retried, or a new job is created from it."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from app.features.dead_letters.letter_list import get_letter
from app.kernel.errors import ConflictError, JobNotFoundError, TaskExecutorError
from app.kernel.tracing.context import TraceContext
from app.queue.ending import letters as dead_letters_store
from app.queue.ending.letters import DeadLetter
from app.queue.executions.execution_model import OperationResult
from app.queue.executions.manual_retry import retry_execution
from app.queue.jobs.job_batch import create_many
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import Job, NewJob, own_key
from app.queue.jobs.job_queries import find_jobs, get_job
from schema.states import Trigger


class Replacement(NamedTuple):
    """Endpoint (in its newest version) and input of a new job.

    None stands for the endpoint of the letter, or the input of its job. All other fields are copied from the job,
    except queue and priority at another endpoint.
    """

    endpoint: str | None = None
    input: dict[str, Any] | None = None


def redrive(
    creator: Creator, letter_id: str, new: Replacement | None, *, actor: str | None, trace: TraceContext | None = None
) -> str:
    """Redrive an open letter, which resolves it; returns the queue of the due execution.

    Its execution gets new attempts, as after a manual retry; a replacement creates a new job in the same transaction.
    A second redrive of the same kind changes nothing. Raises DeadLetterNotFoundError, ConflictError for a letter that
    was resolved in another way or cannot be retried, and the errors of job creation.
    """
    database, letter = creator.database, get_letter(creator.database, letter_id)
    if new is None:
        return retry_execution(database, letter.execution_id, actor=actor, trace=trace, letter=letter)
    job = job_of_letter(letter, get_job(database, letter.job_id), new, trace)
    return database.transact_jointly(partial(_as_new_job, creator, letter_id, job, actor))


def _as_new_job(creator: Creator, letter_id: str, new: NewJob, actor: str | None) -> str:
    transact = creator.database.transact
    is_open = transact(partial(dead_letters_store.lock_open, letter_id=letter_id, redriven_as=None))
    created = creator.create(new)
    execution = created.job.execution
    if execution is None or created.is_new is not is_open:
        raise _key_taken(letter_id, created.job) if is_open else _redriven_otherwise(letter_id)
    if not is_open:
        # The job with the key is the job of the first redrive only if the letter says so.
        transact(partial(dead_letters_store.lock_open, letter_id=letter_id, redriven_as=execution.execution_id))
    else:
        made = {letter_id: execution.execution_id}
        transact(partial(dead_letters_store.resolve_as, executions=made, actor=actor))
    return execution.queue


def redrive_as_new_jobs(
    creator: Creator, each: Sequence[DeadLetter], endpoint: str, *, actor: str | None
) -> OperationResult:
    """Create a new job for an endpoint from each open letter, in the ambient transaction of this thread.

    Refusals are returned by letter.
    """
    database, wanted = creator.database, [letter.letter_id for letter in each]
    is_open, refused = database.transact(partial(dead_letters_store.lock_several, letters=wanted))
    jobs = {job.job_id: job for job in find_jobs(database, {letter.job_id for letter in each}, ())}
    found = [letter for letter in each if letter.letter_id in is_open]
    refused |= {each.letter_id: JobNotFoundError.of(each.job_id) for each in found if each.job_id not in jobs}
    found = [letter for letter in found if letter.job_id in jobs]
    new = [job_of_letter(letter, jobs[letter.job_id], Replacement(endpoint), None) for letter in found]
    made, queues = dict[str, str](), Counter[str]()
    for letter, outcome in zip(found, create_many(creator, new), strict=True):
        if isinstance(outcome, TaskExecutorError):
            refused[letter.letter_id] = outcome
        elif outcome.job.execution is None or not outcome.is_new:
            refused[letter.letter_id] = _key_taken(letter.letter_id, outcome.job)
        else:
            made[letter.letter_id] = outcome.job.execution.execution_id
            queues[outcome.job.execution.queue] += 1
    database.transact(partial(dead_letters_store.resolve_as, executions=made, actor=actor))
    return OperationResult(queues, refused)


def _key_taken(letter_id: str, job: Job) -> ConflictError:
    return ConflictError(f"The idempotency key for a redrive of {letter_id!r} is taken by the job {job.job_id!r}.")


def _redriven_otherwise(letter_id: str) -> ConflictError:
    return ConflictError(f"The dead letter {letter_id!r} is already resolved in another way.")


def job_of_letter(letter: DeadLetter, old: Job, replacement: Replacement, trace: TraceContext | None) -> NewJob:
    """Return the new job of a dead letter; at another endpoint without the queue and the priority of the old job."""
    given, endpoint = replacement.input, replacement.endpoint or letter.endpoint
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
        idempotency_key=own_key("redrive", letter.letter_id),
        trace=trace,
    )
