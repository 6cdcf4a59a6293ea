"""A job of the demo, and how far it is."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from app.dev.stack.stack_client import Api

DELAY = timedelta(seconds=3)
_FINAL = {"SUCCESS", "FAILED", "CANCELLED"}


@dataclass(slots=True)
class DemoJob:
    """One job; `order_id` is in its input, so that it is recognised wherever it arrives."""

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
        """Return how long after its time the first attempt started; None before it did."""
        if self.execution is None or not self.attempts:
            return None
        # A retry moves run_at; what was asked for is in scheduled_at.
        due = self.execution.get("scheduled_at") or self.execution["run_at"]
        return round((_instant(self.attempts[0]["started_at"]) - _instant(due)) / timedelta(milliseconds=1))

    @property
    def error(self) -> str:
        """Describe what the last attempt failed with."""
        error = (self.attempts[-1].get("error") if self.attempts else None) or {}
        return f"{error.get('type', '')}: {error.get('message', '')}" if error else ""

    def create(self, api: Api, number: int) -> None:
        """Create the job."""
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
        """Ask how far its first execution is."""
        executions = list(api.items(f"/jobs/{self.job_id}/executions"))
        if not executions:
            return
        self.execution = executions[-1]  # newest first
        if self.is_finished:
            attempts = api.items(f"/executions/{self.execution['execution_id']}/attempts")
            self.attempts = sorted(attempts, key=lambda attempt: int(attempt["attempt_number"]))


def script() -> list[DemoJob]:
    """List the jobs: each trigger on each transport, and one whose receiver fails at first."""
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


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
