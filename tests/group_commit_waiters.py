"""Threads that wait for a group commit."""

from collections.abc import Iterator
from types import FrameType

from app.queue.jobs import group_commit
from app.queue.jobs.job_creation import Creator
from tests.thread_frames import frames_by_thread


def waiting_in_group_commit() -> int:
    """Return how many threads wait in the queue of a group commit."""
    frames = frames_by_thread().values()
    return sum(
        frame.f_code.co_filename == group_commit.__file__ and frame.f_code.co_name == "_wait" for frame in frames
    )


def writing_in_creation() -> int:
    """Return how many threads insert jobs, alone or for a group."""
    code = Creator._insert_one_shots.__code__  # noqa: SLF001 - each of them is in a call of it
    return sum(any(each.f_code is code for each in callers(top)) for top in frames_by_thread().values())


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that wait for its end."""
    while frame is not None:
        yield frame
        frame = frame.f_back
