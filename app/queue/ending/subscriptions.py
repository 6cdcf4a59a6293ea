"""Subscriptions: the completion events of an execution that leave a row in the outbox.

`followed` is set at the insertion of an execution and never changes, so a worker has it from the claim. A failure
counts as subscribed, because it leaves a dead letter, unless the retry policy rejected it.
"""

from collections.abc import Mapping

from schema.states import FOLLOWED_BY, CallbackEvent, ExecutionStatus, Followed

_S = ExecutionStatus
# Bits that subscribe the end of an attempt in a state, and the end of an execution without an attempt.
_OF_ATTEMPT = {
    _S.SUCCESS: Followed.SUCCESS | Followed.NODE,
    _S.RETRYING: Followed.ATTEMPT_FAILED,
    _S.FAILED: Followed.FAILURE | Followed.ATTEMPT_FAILED | Followed.NODE,
    _S.CANCELLED: Followed.CANCELLATION | Followed.ATTEMPT_FAILED | Followed.NODE,
}
_WITHOUT_ATTEMPT = {
    _S.FAILED: Followed.FAILURE | Followed.NODE,
    _S.CANCELLED: Followed.CANCELLATION | Followed.NODE,
}


def followed_for(callbacks: Mapping[CallbackEvent, str]) -> int | None:
    """Return the bits of `followed` for these callbacks; None for no bits."""
    bits = 0
    for event in callbacks:
        bits |= FOLLOWED_BY[event]
    return bits or None


def may_be_followed(status: ExecutionStatus, followed: int, *, is_rejected: bool) -> bool:
    """Return whether an attempt that leads to a state may leave a row in the outbox.

    A request to cancel turns a retry into a cancellation.
    """
    if status is _S.FAILED and not is_rejected:
        return True
    asked = _OF_ATTEMPT[status] | (Followed.CANCELLATION | Followed.NODE if status is _S.RETRYING else 0)
    return bool(followed & asked)


def follows_cancellation(followed: int) -> bool:
    """Return whether the cancellation of a waiting execution leaves a row in the outbox."""
    return bool(followed & _WITHOUT_ATTEMPT[_S.CANCELLED])


def is_followed(ended: str, *, by_attempt: bool, rejected: str = "false") -> str:
    """Return the SQL condition that a row of `ended` with a status and `followed` has a subscribed event.

    `rejected` is the SQL condition that a retry policy rejected it.
    """
    bits = _OF_ATTEMPT if by_attempt else _WITHOUT_ATTEMPT
    asked = " ".join(f"WHEN '{status}' THEN {int(wanted)}" for status, wanted in bits.items())
    return f"""({ended}.status = 'FAILED' AND NOT {rejected}
                OR COALESCE({ended}.followed, 0) & CASE {ended}.status {asked} ELSE 0 END <> 0)"""
