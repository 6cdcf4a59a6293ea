"""Threads that wait for a group commit."""

import gc
import sys
from collections.abc import Iterator
from types import FrameType

from app.queue.jobs import group_commit
from app.queue.jobs.job_creation import Creator


def waiting_in_group_commit() -> int:
    """Return how many threads wait in the queue of a group commit."""
    return sum(
        frame.f_code.co_filename == group_commit.__file__ and frame.f_code.co_name == "_wait" for frame in frames()
    )


def writing_in_creation() -> int:
    """Return how many threads insert jobs, alone or for a group."""
    code = Creator._insert_one_shots.__code__  # noqa: SLF001 - each of them is in a call of it
    return sum(any(each.f_code is code for each in callers(top)) for top in frames())


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that wait for its end."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def frames() -> list[FrameType]:
    """Return the frames of all threads, without garbage collection meanwhile: it deadlocks (CPython's gh-106883)."""
    gc.disable()
    try:
        return [*sys._current_frames().values()]  # noqa: SLF001 - no public function returns the frames of other threads
    finally:
        gc.enable()
