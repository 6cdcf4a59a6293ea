"""Fabricated breaches of the promises about ends, events, transactions and pauses of queues."""

from dataclasses import replace
from datetime import timedelta

from app.dev.verify.ending.ending_rows import CallbackRow, Endings, FailureRule, LetterRow, MessageRow, RedriveRow
from app.dev.verify.evidence import AttemptRow, Evidence, SeenEvent, Span
from schema.states import AttemptStatus, CallbackEvent, ExecutionStatus, Resolution
from tests.unit.verify.good_run import DUE, EXECUTION, GOOD, MINUTE, MS, S

CALLBACKS = "each end has one job per callback"
LETTERS = "each failure leaves one dead letter"
REDRIVES = "each dead letter is redriven once"
MESSAGES = "each failure is counted in one message"
EVENT_ORDER = "events come once and in order"
EVENTS = "each change is an event"
ROLLBACKS = "no job of a transaction that was rolled back exists"
PAUSES = "nothing is claimed from a paused queue"

_E = CallbackEvent
FAILURE = AttemptRow("e1", 1, AttemptStatus.FAILED, "w1", "HTTP_ERROR", led_to=ExecutionStatus.FAILED)
LETTER = LetterRow("l1", "e1", "billing")
REDRIVEN = replace(LETTER, resolution=Resolution.REDRIVEN, redriven_as="e1")
RENEWED = replace(REDRIVEN, redriven_as="t1")
REDRIVE = RedriveRow("r1", "billing", None, is_done=True, redriven=1)
TO_OTHER = replace(REDRIVE, to_endpoint="other")
CALLS = (CallbackRow("e1", _E.ON_FAILURE, 1, "pager"), CallbackRow("e1", _E.ON_ATTEMPT_FAILED, 1, "pager"))
MESSAGE = MessageRow("g1", "rule", 1, {"chat": "j2"})
FAILED = Endings(
    callbacks={"billing": dict.fromkeys(_E, "pager")},
    called=CALLS,
    letters=(LETTER,),
    rules={"rule": FailureRule(frozenset({"billing"}), ("chat",))},
    messages=(MESSAGE,),
)
STREAM = (
    SeenEvent("1-j-j1", "job.created", "j1"),
    SeenEvent("2-j-j2", "job.created", "j2"),
    SeenEvent("3-a-att_1", "execution.failed", "e1"),
)


def failed(*, status: ExecutionStatus = S.FAILED, **changes: object) -> Evidence:
    """Return the evidence of one failed execution with changes of the rows that its end left."""
    execution = replace(EXECUTION, endpoint="billing", status=status, attempt_count=1, max_attempts=1)
    return replace(
        GOOD,
        executions=(execution, *GOOD.executions[1:]),
        attempts=(FAILURE,),
        arrivals=(),
        transitions=None,
        endings=replace(FAILED, **changes),  # type: ignore[arg-type]
    )


def redriven(*letters: LetterRow, redrive: RedriveRow = REDRIVE, **changes: object) -> Evidence:
    """Return the evidence of a redrive."""
    status = S.CANCELLED if REDRIVEN in letters else S.FAILED
    given = {"letters": letters, "redrives": (redrive,)} | changes
    return failed(status=status, **given)


def streamed(*events: SeenEvent) -> Evidence:
    return replace(failed(), events=events)


def paused(at: timedelta) -> Evidence:
    """Return a run with one claim after a time, whose queue is paused for a minute."""
    first, claim, *rest = GOOD.transitions or ()
    pauses = {EXECUTION.endpoint: (Span(DUE, DUE + MINUTE),)}
    return replace(GOOD, transitions=(first, replace(claim, at=DUE + at), *rest), queue_pauses=pauses)


BREACHES: dict[str, tuple[str, Evidence]] = {
    "an end has no callback": (CALLBACKS, failed(called=CALLS[1:])),
    "an end has two callbacks": (CALLBACKS, failed(called=(*CALLS, CALLS[0]))),
    "a callback of an end that never came": (
        CALLBACKS,
        failed(called=(*CALLS, replace(CALLS[0], event=_E.ON_SUCCESS))),
    ),
    "a failure without a dead letter": (LETTERS, failed(letters=())),
    "a failure with two dead letters": (LETTERS, failed(letters=(LETTER, replace(LETTER, letter_id="l2")))),
    "an execution continued beside its open letter": (LETTERS, failed(status=S.SUCCESS)),
    "a redrive left a letter": (REDRIVES, failed(owed=frozenset({"l1"}))),
    "a redrive is not done": (REDRIVES, redriven(REDRIVEN, redrive=replace(REDRIVE, is_done=False))),
    "a redrive refused a letter": (REDRIVES, redriven(REDRIVEN, redrive=replace(REDRIVE, refused=1))),
    "a redrive counts a letter twice": (REDRIVES, redriven(REDRIVEN, redrive=replace(REDRIVE, redriven=2))),
    "a letter was redriven and not retried": (
        REDRIVES,
        replace(redriven(REDRIVEN), transitions=GOOD.transitions),
    ),
    "the new job of a letter is not stored": (
        REDRIVES,
        redriven(replace(RENEWED, redriven_as="e9"), redrive=TO_OTHER),
    ),
    "two letters have one new job": (
        REDRIVES,
        redriven(RENEWED, replace(RENEWED, letter_id="l2"), redrive=replace(TO_OTHER, redriven=2)),
    ),
    "a failure is in no message": (MESSAGES, failed(messages=())),
    "a failure is in two messages": (MESSAGES, failed(messages=(MESSAGE, replace(MESSAGE, group_id="g2")))),
    "a group was never sent": (MESSAGES, failed(messages=(replace(MESSAGE, jobs=None),))),
    "a message has no job": (MESSAGES, failed(messages=(replace(MESSAGE, jobs={"chat": None}),))),
    "an event came twice": (EVENT_ORDER, streamed(*STREAM, STREAM[-1])),
    "an event came late": (EVENT_ORDER, streamed(STREAM[0], STREAM[2], STREAM[1])),
    "an attempt has no event": (EVENTS, streamed(*STREAM[:2])),
    "a job has no event": (EVENTS, streamed(*STREAM[1:])),
    "a failure is reported as a success": (
        EVENTS,
        streamed(*STREAM[:2], STREAM[2]._replace(kind="execution.succeeded")),
    ),
    "a job was rolled back and exists": (ROLLBACKS, replace(GOOD, rolled_back=frozenset({"j1"}))),
    "a claim during a pause": (PAUSES, paused(at=MS)),
}

LEGAL: dict[str, Evidence] = {
    "a failure with its consequences": failed(),
    "a letter that was redriven as a retry": redriven(REDRIVEN),
    "a letter that was redriven as a new job": redriven(RENEWED, redrive=TO_OTHER),
    "a letter that another redrive had redriven": redriven(
        REDRIVEN,
        redrive=replace(REDRIVE, refused=1, refusal="The dead letter 'l1' is already resolved: REDRIVEN."),
    ),
    "events of all changes": streamed(*STREAM),
    "a rolled-back job does not exist": replace(GOOD, rolled_back=frozenset({"j9"})),
    "a claim that began before the pause": paused(at=-MS),
    "a claim after the resume": paused(at=MINUTE + MS),
}
