"""The Python frames that the threads of a process run."""

import gc
import sys
from types import FrameType


def frames_by_thread() -> dict[int, FrameType]:
    """Return the frame of each thread, without garbage collection meanwhile: it deadlocks (CPython's gh-106883)."""
    gc.disable()
    try:
        return sys._current_frames()  # noqa: SLF001 - no public function returns the frames of other threads
    finally:
        gc.enable()
