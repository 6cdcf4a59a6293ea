"""Errors of messages in hand: an exception of any form becomes an outcome."""

import pytest
from task_executor_dramatiq.in_hand import MessageInHand
from task_executor_dramatiq.link import Links


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise KeyError("no text")


def raised(*, cause: BaseException | None, error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error from cause
    return caught.value


def test_exception_without_a_text_is_reported() -> None:
    frame = {"actor": "mail", "queue": "mails", "input": {}, "execution": "exec_1", "attempt": 1}
    message = MessageInHand(frame, Links("unix:/nowhere", list), 1)
    message.stuff_exception(raised(error=UnspeakableError(), cause=UnspeakableError()))
    error = message.error()
    assert error["message"] == "<its text is missing: str() raised KeyError>"
    assert error["causes"] == [f"{error['type']}: {error['message']}"]
    assert "UnspeakableError" in error["traceback"]
