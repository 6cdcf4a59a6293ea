"""Threads that wait for a group commit."""

import sys

from app.queue.jobs import group_commit


def waiting_in_group_commit() -> int:
    """Return how many threads wait in the queue of a group commit."""
    frames = sys._current_frames().values()  # noqa: SLF001 - no public function returns the frames of other threads
    return sum(
        frame.f_code.co_filename == group_commit.__file__ and frame.f_code.co_name == "_wait" for frame in frames
    )
