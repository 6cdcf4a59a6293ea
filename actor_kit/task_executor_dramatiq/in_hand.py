"""Message in hand: a message of a worker, from its arrival to its outcome."""

import builtins
import json
import threading
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dramatiq.broker import MessageProxy
from dramatiq.middleware.threading import Interrupt, raise_thread_exception

from task_executor_dramatiq.frames import key_of
from task_executor_dramatiq.messages import Job, message_of

if TYPE_CHECKING:
    from task_executor_dramatiq.link import Links

MAX_MESSAGE_CHARACTERS = 2_000
MAX_TRACEBACK_CHARACTERS = 16_384
MAX_FRAMES = 30
MAX_CAUSES = 10


class Abort(Interrupt):
    """Raised in the thread of an actor whose execution is aborted."""


class MessageInHand(MessageProxy):
    """Message that this process holds; it is started once, or dropped, and ends with one outcome."""

    def __init__(self, frame: Mapping[str, Any], links: "Links", generation: int) -> None:
        """Raise DecodeError for an undecodable message."""
        super().__init__(message_of(frame))
        self.__dict__.update(self._message.__dict__)  # Dramatiq reads some twenty fields: each would be a call
        self.key = key_of(frame)
        self.generation = generation
        self.again_ms: int | None = None
        self.then: list[Job] = []
        self.is_dropped = False
        self.is_skipped = False
        self.is_aborted = False
        self.results: list[Any] = []  # at most one
        self.category: str | None = None  # of its exception
        self._links = links
        self._received_options = dict(self._message.options)
        self._thread_id: int | None = None
        self._lock = threading.Lock()

    def start(self) -> bool:
        """Start on this thread; False if the worker has taken the message back."""
        with self._lock:
            if self.is_dropped:
                return False
            self._thread_id = threading.get_ident()
        self._links.send_start(self)
        return True

    def drop(self) -> bool:
        """Give the message back unless it has started; return whether it is given back."""
        with self._lock:
            if self._thread_id is None:
                self.is_dropped = True
            return self.is_dropped

    def abort(self) -> None:
        """Interrupt the actor, or drop the message."""
        with self._lock:
            if self._thread_id is None:
                self.is_dropped = True
            elif not self.is_aborted:
                self.is_aborted = True
                raise_thread_exception(self._thread_id, Abort)

    def end(self) -> None:
        """Note that the actor is over: an abort comes too late from now on."""
        with self._lock:
            self._thread_id = self._thread_id or 0
            self.is_aborted = True

    def conclude(self, *, is_failed: bool) -> None:
        """Send the outcome to the worker; nothing for a message that the worker has taken back."""
        if self.is_dropped:
            return
        then = {"then": [job.as_json() for job in self.then]} if self.then else {}
        if is_failed:
            self._links.send_outcome(self, "FAILED", error=self.error(), **then)
        elif self.again_ms is not None:
            self._links.send_outcome(self, "AGAIN", delay_ms=self.again_ms, error=self.error(), **then)
        else:
            result = {"result": self.results[-1]} if self.results else {}
            skipped = {"skipped": True} if self.is_skipped else {}
            self._links.send_outcome(self, "DONE", **result, **skipped, **then)

    def error(self) -> dict[str, Any]:
        """Return the error of the attempt: type, message, traceback, causes, and options that middleware has set."""
        error, options = self._exception, self._message.options
        changed = {name: value for name, value in options.items() if self._received_options.get(name) != value}
        told = changed.pop("traceback", None)
        shown: dict[str, Any] = {"options": {name: value for name, value in changed.items() if _is_json(value)}}
        if error is None:
            return shown | {"type": "FAILED", "message": "a middleware has failed the message"} | _traceback(told)
        lines = told or "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=MAX_FRAMES))
        causes = [f"{type_name(each)}: {_text_of(each)}"[:200] for each in _causes(error)]
        return shown | {
            "type": type_name(error),
            "message": _text_of(error)[:MAX_MESSAGE_CHARACTERS],
            **_traceback(lines),
            **({"causes": causes} if causes else {}),
            **({"category": self.category} if self.category else {}),
        }


def type_name(error: BaseException) -> str:
    """Return the name of the type of an exception, with its module unless it is built in."""
    type_ = type(error)
    is_built_in = getattr(builtins, type_.__name__, None) is type_
    return type_.__name__ if is_built_in else f"{type_.__module__}.{type_.__qualname__}"


def _text_of(error: BaseException) -> str:
    """Return the text of an exception, whose own method may fail: the message would stay without an outcome."""
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001 - code of the user
        return f"<its text is missing: str() raised {type_name(failed)}>"


def _traceback(lines: Any) -> dict[str, str]:
    return {"traceback": lines[-MAX_TRACEBACK_CHARACTERS:]} if isinstance(lines, str) else {}


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while following is not None and following not in found and len(found) < MAX_CAUSES:
        found.append(following)
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)
    return found


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
