"""Progress of the demo's jobs until all have run."""

import time
from collections import Counter
from datetime import UTC, datetime

from app.dev.demo.demo_job import DemoJob
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.dev.terminal import Terminal

_GRACE_SECONDS = 30.0  # after the last due time, including retries
_PAUSE_SECONDS = 0.25


def watch(jobs: list[DemoJob], api: Api, stack: Stack, terminal: Terminal) -> None:
    """Wait until all jobs have finished or the last due time is long past; raises ChildError if a process dies."""
    last_due = max((job.due for job in jobs if job.due is not None), default=datetime.now(UTC))
    deadline = time.monotonic() + _seconds_until(last_due) + _GRACE_SECONDS
    finished: set[str] = set()
    while time.monotonic() < deadline:
        stack.check()
        for job in jobs:
            if not job.is_finished:
                job.refresh(api)
            if job.is_finished and job.order_id not in finished:
                finished.add(job.order_id)
                terminal.line("  ", ("→", "green"), f" {_sentence(job)}")
        if len(finished) == len(jobs):
            return
        terminal.status(f"  {_progress(jobs)}")
        time.sleep(_PAUSE_SECONDS)


def _sentence(job: DemoJob) -> str:
    retried = f" at attempt {len(job.attempts)}" if len(job.attempts) > 1 else ""
    return f"{job.trigger} {job.transport}: {job.status}{retried}"


def _progress(jobs: list[DemoJob]) -> str:
    counts = Counter(job.status for job in jobs)
    text = ", ".join(f"{count} {status}" for status, count in counts.items())
    waiting = [_seconds_until(job.due) for job in jobs if not job.is_finished and job.due is not None]
    ahead = [seconds for seconds in waiting if seconds > 0]
    return f"{text}; the next is due in {min(ahead):.0f} s" if ahead else text


def _seconds_until(instant: datetime) -> float:
    return (instant - datetime.now(UTC)).total_seconds()
