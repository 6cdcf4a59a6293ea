"""Threads that wait for a group commit."""

import gc
import sys
from types import FrameType

from app.queue.jobs import group_commit


def waiting_in_group_commit() -> int:
    """Return how many threads wait in the queue of a group commit."""
    return sum(
        frame.f_code.co_filename == group_commit.__file__ and frame.f_code.co_name == "_wait" for frame in frames()
    )


def frames() -> list[FrameType]:
    """Return the frames of all threads, without garbage collection meanwhile: it deadlocks (CPython's gh-106883)."""
    gc.disable()
    try:
        return [*sys._current_frames().values()]  # noqa: SLF001 - no public function returns the frames of other threads
    finally:
        gc.enable()
