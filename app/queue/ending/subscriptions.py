"""Followers: which ends leave a row in the outbox (app.queue.ending.outbox_rows).

An execution says from its insertion on which of its ends somebody follows, and nothing changes that: so a worker knows
it from the claim. A failure always has followers, since it leaves a dead letter, unless the retry policy rejected it.
"""

from collections.abc import Mapping

from schema.states import FOLLOWED_BY, CallbackEvent, ExecutionStatus, Followed

_S = ExecutionStatus
# Which bits ask for an end in a state: of an attempt, and of an execution that ended without one.
_OF_ATTEMPT = {
    _S.SUCCESS: Followed.SUCCESS,
    _S.RETRYING: Followed.ATTEMPT_FAILED,
    _S.FAILED: Followed.FAILURE | Followed.ATTEMPT_FAILED,
    _S.CANCELLED: Followed.CANCELLATION | Followed.ATTEMPT_FAILED,
}
_WITHOUT_ATTEMPT = {
    _S.FAILED: Followed.FAILURE,
    _S.CANCELLED: Followed.CANCELLATION,
}


def followed_for(callbacks: Mapping[CallbackEvent, str]) -> int | None:
    """Return what `followed` must hold for these callbacks; None where it is not needed."""
    bits = 0
    for event in callbacks:
        bits |= FOLLOWED_BY[event]
    return bits or None


def may_be_followed(status: ExecutionStatus, followed: int, *, is_rejected: bool) -> bool:
    """Return whether an attempt that is to lead to a state leaves a row in the outbox, or may leave one.

    A request to cancel makes a cancellation of a retry.
    """
    if status is _S.FAILED and not is_rejected:
        return True
    asked = _OF_ATTEMPT[status] | (Followed.CANCELLATION if status is _S.RETRYING else 0)
    return bool(followed & asked)


def is_followed(ended: str, *, by_attempt: bool, rejected: str = "false") -> str:
    """Return the SQL condition on a row of `ended`, which has a status and `followed`, that it goes to the outbox.

    `rejected` is the SQL expression that says that a retry policy rejected it.
    """
    bits = _OF_ATTEMPT if by_attempt else _WITHOUT_ATTEMPT
    asked = " ".join(f"WHEN '{status}' THEN {int(wanted)}" for status, wanted in bits.items())
    return f"""({ended}.status = 'FAILED' AND NOT {rejected}
                OR COALESCE({ended}.followed, 0) & CASE {ended}.status {asked} ELSE 0 END <> 0)"""
