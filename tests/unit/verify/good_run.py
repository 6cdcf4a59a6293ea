"""Evidence of a run of the verifier without any breach."""

from datetime import UTC, datetime, timedelta

from app.dev.verify.evidence import AcceptedJob, Arrival, AttemptRow, Evidence, ExecutionRow, TransitionRow
from schema.states import AttemptStatus, EndpointType, ExecutionStatus, Trigger

S = ExecutionStatus
DUE = datetime(2026, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
MINUTE = timedelta(minutes=1)

EXECUTION = ExecutionRow("e1", "j1", EndpointType.HTTP, S.SUCCESS, 2, 3, DUE)
FIRST = AttemptRow("e1", 1, AttemptStatus.FAILED, "w1", "WORKER_LOST", uncertain=True)
SECOND = AttemptRow("e1", 2, AttemptStatus.SUCCESS, "w2")
CHANGES = (
    TransitionRow("e1", None, S.QUEUED, 0, 0, None, None),
    TransitionRow("e1", S.QUEUED, S.RUNNING, 0, 1, None, "w1", True),
    TransitionRow("e1", S.RUNNING, S.RETRYING, 1, 1, "w1", "w1"),
    TransitionRow("e1", S.RETRYING, S.RUNNING, 1, 2, "w1", "w2", True),
    TransitionRow("e1", S.RUNNING, S.SUCCESS, 2, 2, "w2", "w2"),
)
CRON = AcceptedJob("j2", "tick", Trigger.CRON, first_tick=DUE, step=MINUTE, ended_at=DUE + MINUTE + MS)


def tick(name: str, at: datetime) -> ExecutionRow:
    return ExecutionRow(name, "j2", EndpointType.HTTP, S.CANCELLED, 0, 3, at)


GOOD = Evidence(
    accepted=(AcceptedJob("j1", "k1", Trigger.IMMEDIATE), CRON),
    jobs=frozenset({"j1", "j2"}),
    executions=(EXECUTION, tick("t1", DUE), tick("t2", DUE + MINUTE)),
    attempts=(FIRST, SECOND),
    transitions=(
        *CHANGES,
        *(TransitionRow(name, None, S.QUEUED, 0, 0, None, None) for name in ("t1", "t2")),
        *(TransitionRow(name, S.QUEUED, S.CANCELLED, 0, 0, None, None) for name in ("t1", "t2")),
    ),
    arrivals=(
        Arrival(EndpointType.HTTP, "e1", 1, DUE + 5 * MS),
        Arrival(EndpointType.HTTP, "e1", 2, DUE + 900 * MS),
    ),
)
