"""Jobs of the demo and their progress."""

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.dev.terminal import Terminal

DELAY = timedelta(seconds=3)
_FINAL = {"SUCCESS", "FAILED", "CANCELLED"}
_GRACE_SECONDS = 30.0  # after the last due time, including retries
_PAUSE_SECONDS = 0.25


@dataclass(slots=True)
class DemoJob:
    """Job whose input contains `order_id`, which identifies it at its receiver."""

    order_id: str
    endpoint: str
    transport: str
    trigger: str
    job_id: str = ""
    due: datetime | None = None
    execution: dict[str, Any] | None = None
    attempts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def status(self) -> str:
        if self.execution is not None:
            return str(self.execution["status"])
        return "waiting" if self.job_id else "not created"

    @property
    def is_finished(self) -> bool:
        return self.status in _FINAL

    @property
    def lateness_ms(self) -> int | None:
        """Return the milliseconds from the due time to the start of the first attempt; None before the start."""
        if self.execution is None or not self.attempts:
            return None
        # A retry changes run_at but not scheduled_at.
        due = self.execution.get("scheduled_at") or self.execution["run_at"]
        return round((_instant(self.attempts[0]["started_at"]) - _instant(due)) / timedelta(milliseconds=1))

    @property
    def error(self) -> str:
        error = (self.attempts[-1].get("error") if self.attempts else None) or {}
        return f"{error.get('type', '')}: {error.get('message', '')}" if error else ""

    def create(self, api: Api, number: int) -> None:
        body = {"endpoint": self.endpoint, "trigger": self.trigger}
        body["input"] = {"order_id": self.order_id, "amount": number * 10 + 0.5}  # type: ignore[assignment]
        if self.trigger == "CRON":
            body |= {"cron": "* * * * *", "timezone": "UTC"}
        else:
            body["idempotency_key"] = self.order_id
        if self.trigger == "DELAYED":
            self.due = datetime.now(UTC) + DELAY
            body["run_at"] = self.due.isoformat()
        answer = api.post("/jobs", body)
        self.job_id = answer["job_id"]
        if self.trigger == "CRON":
            self.due = _instant(answer["next_run_at"])

    def refresh(self, api: Api) -> None:
        """Read the state of the job's first execution."""
        executions = list(api.items(f"/jobs/{self.job_id}/executions"))
        if not executions:
            return
        self.execution = executions[-1]  # newest first
        if self.is_finished:
            attempts = api.items(f"/executions/{self.execution['execution_id']}/attempts")
            self.attempts = sorted(attempts, key=itemgetter("attempt_number"))


def script() -> list[DemoJob]:
    """Return the jobs: each trigger on each transport, and a job whose receiver fails at first."""
    transports = {
        "demo-http": "HTTP",
        "demo-kafka": "KAFKA",
        "demo-redis": "REDIS_STREAM",
        "demo-people": "NOTIFICATION",
    }
    jobs = [
        DemoJob(f"{endpoint}-{trigger.lower()}", endpoint, transport, trigger)
        for trigger in ("IMMEDIATE", "DELAYED", "CRON")
        for endpoint, transport in transports.items()
    ]
    return [*jobs[:4], DemoJob("demo-http-flaky-immediate", "demo-http-flaky", "HTTP", "IMMEDIATE"), *jobs[4:]]


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
                retried = f" at attempt {len(job.attempts)}" if len(job.attempts) > 1 else ""
                terminal.line("  ", ("→", "green"), f" {job.trigger} {job.transport}: {job.status}{retried}")
        if len(finished) == len(jobs):
            return
        terminal.status(f"  {_progress(jobs)}")
        time.sleep(_PAUSE_SECONDS)


def _progress(jobs: list[DemoJob]) -> str:
    counts = Counter(job.status for job in jobs)
    text = ", ".join(f"{count} {status}" for status, count in counts.items())
    waiting = [_seconds_until(job.due) for job in jobs if not job.is_finished and job.due is not None]
    ahead = [seconds for seconds in waiting if seconds > 0]
    return f"{text}; the next is due in {min(ahead):.0f} s" if ahead else text


def _seconds_until(instant: datetime) -> float:
    return (instant - datetime.now(UTC)).total_seconds()


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
