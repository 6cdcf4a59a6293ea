"""Checks of the time after an end: pure functions from the evidence to its breaches."""

from collections import Counter
from collections.abc import Iterator

from app.dev.verify.ending.ending_rows import LetterRow
from app.dev.verify.evidence import AttemptRow, Evidence
from app.kernel.formats import numbered
from schema.states import FINAL, AttemptStatus, CallbackEvent, ExecutionStatus, Resolution

_FAILED = ExecutionStatus.FAILED
_REDRIVEN_BEFORE = f"is already resolved: {Resolution.REDRIVEN}."


def each_callback_once(evidence: Evidence) -> Iterator[str]:
    """Find ends without the job of a callback, ends with several jobs, and jobs without an end."""
    endpoints = {execution.execution_id: execution.endpoint for execution in evidence.executions}
    owed = Counter(
        (attempt.execution_id, attempt.number, event, named[event])
        for attempt in evidence.attempts
        if (named := evidence.endings.callbacks.get(endpoints.get(attempt.execution_id, "")))
        for event in _events_of(attempt)
        if event in named
    )
    made = Counter((row.execution_id, row.attempt, row.event, row.endpoint) for row in evidence.endings.called)
    for call in sorted(owed.keys() | made.keys()):
        if made[call] != owed[call]:
            execution_id, attempt, event, endpoint = call
            yield (
                f"{execution_id}: {numbered(made[call], 'job')} of {endpoint} for {event} of attempt {attempt}, "
                f"{owed[call]} are expected"
            )


def _events_of(attempt: AttemptRow) -> Iterator[CallbackEvent]:
    if attempt.status is AttemptStatus.SUCCESS:
        yield CallbackEvent.ON_SUCCESS
    else:
        yield CallbackEvent.ON_ATTEMPT_FAILED
        if attempt.led_to is _FAILED:
            yield CallbackEvent.ON_FAILURE


def one_letter_per_failure(evidence: Evidence) -> Iterator[str]:
    """Find failures with fewer or more dead letters than one, and letters whose execution continued without them."""
    letters = Counter(letter.execution_id for letter in evidence.endings.letters)
    # A letter that was redriven as a new job leaves its execution FAILED.
    standing = Counter(letter.execution_id for letter in evidence.endings.letters if not _is_retried(letter))
    failed = Counter(attempt.execution_id for attempt in evidence.attempts if attempt.led_to is _FAILED)
    for execution in evidence.executions:
        name = execution.execution_id
        if letters[name] != failed[name]:
            yield f"{name}: {numbered(letters[name], 'dead letter')} of {numbered(failed[name], 'failure')}"
        elif execution.status in FINAL and standing[name] != (execution.status is _FAILED):
            yield f"{name}: {execution.status} with {numbered(standing[name], 'dead letter')} without a retry"


def each_letter_redriven_once(evidence: Evidence) -> Iterator[str]:
    """Find letters that a redrive left or redrove twice, and redrives that do not end or miscount.

    Two redrives may run at once, because a scheduler is late or a request was repeated: the second refuses letters that
    the first has redriven.
    """
    endings = evidence.endings
    redriven = [letter for letter in endings.letters if letter.resolution is Resolution.REDRIVEN]
    done = {letter.letter_id for letter in redriven}
    yield from (f"{letter_id}: open before a redrive, and not redriven" for letter_id in sorted(endings.owed - done))
    counted, announced = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    counted.update((letter.endpoint, _is_retried(letter)) for letter in redriven)
    for redrive in endings.redrives:
        announced[redrive.endpoint, redrive.to_endpoint is None] += redrive.redriven
        if not redrive.is_done:
            yield f"{redrive.redrive_id}: not done at the end"
        if redrive.refused and not (redrive.refusal or "").endswith(_REDRIVEN_BEFORE):
            yield f"{redrive.redrive_id}: {numbered(redrive.refused, 'letter')} refused, latest: {redrive.refusal}"
    for kind in sorted(counted.keys() | announced.keys()):
        if counted[kind] != announced[kind]:
            yield f"{kind[0]}: {numbered(counted[kind], 'letter')} redriven, {announced[kind]} counted by the redrives"
    yield from _runs_of_letters(evidence, redriven)


def _is_retried(letter: LetterRow) -> bool:
    """Return whether a letter was resolved by another attempt of its own execution."""
    return letter.redriven_as == letter.execution_id


def _runs_of_letters(evidence: Evidence, redriven: list[LetterRow]) -> Iterator[str]:
    """Find letters without exactly one further run: a new execution, or one retry of the failed execution."""
    known = {execution.execution_id for execution in evidence.executions}
    renewed = Counter(letter.redriven_as for letter in redriven if not _is_retried(letter))
    yield from (f"{name}: made by {numbered(number, 'dead letter')}" for name, number in renewed.items() if number > 1)
    yield from (f"{name}: made by a redrive, and not stored" for name in renewed if name not in known)
    if evidence.transitions is None:
        return
    owed = Counter(letter.execution_id for letter in redriven if _is_retried(letter))
    retried = Counter(
        change.execution_id
        for change in evidence.transitions
        if (change.before, change.after) == (_FAILED, ExecutionStatus.QUEUED)
    )
    for name in sorted(owed.keys() | retried.keys()):
        if owed[name] != retried[name]:
            yield f"{name}: {numbered(owed[name], 'redriven letter')}, {numbered(retried[name], 'retry')}"


def each_failure_in_one_message(evidence: Evidence) -> Iterator[str]:
    """Find failures that no message or several messages count, and messages without one job per channel."""
    endpoints = {execution.execution_id: execution.endpoint for execution in evidence.executions}
    endings, seen = evidence.endings, Counter[str]()
    failed = Counter(endpoints.get(row.execution_id) for row in evidence.attempts if row.led_to is _FAILED)
    counted = Counter[str]()
    for message in endings.messages:
        counted[message.rule] += message.events
        if message.jobs is None:
            yield f"{message.group_id}: a group of {numbered(message.events, 'event')} was never sent"
            continue
        for channel in endings.rules[message.rule].channels:
            job_id = message.jobs.get(channel)
            if job_id not in evidence.jobs:
                yield f"{message.group_id}: no job of the channel {channel}"
            seen[job_id or ""] += 1
    yield from (
        f"{job_id}: the job of {numbered(number, 'message')}"
        for job_id, number in seen.items()
        if job_id and number > 1
    )
    for name, rule in endings.rules.items():
        happened = sum(failed[endpoint] for endpoint in rule.endpoints)
        if counted[name] != happened:
            yield f"{name}: its messages count {numbered(counted[name], 'failure')}, {happened} happened"
