"""Timelines: each wait, each attempt and each loss has its place, at any length."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from app.console.views.attempt_loss import Loss, loss_of
from app.console.views.timeline import LEFT, MAX_ROWS, WIDTH, Timeline, timeline
from app.queue.executions.execution_records import AttemptRecord, Execution
from app.queue.reading.holders import Holders
from schema.states import AttemptStatus, EndpointType, ExecutionStatus
from tests.cases import each_case

BEGAN = datetime(2026, 3, 15, 12, tzinfo=UTC)
UNCERTAIN = {"type": "TIMEOUT", "may_have_been_delivered": True}
REFUSED = {"type": "HTTP_ERROR", "may_have_been_delivered": False}
LOST = {"type": "WORKER_LOST", "may_have_been_delivered": True}


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def execution(status: ExecutionStatus, **changes: Any) -> Execution:
    ended = at(500) if status in {ExecutionStatus.SUCCESS, ExecutionStatus.FAILED} else None
    values: dict[str, Any] = {
        **dict.fromkeys(Execution.__dataclass_fields__),
        "execution_id": "exec_1",
        "endpoint": "mail",
        "endpoint_type": EndpointType.HTTP,
        "status": status,
        "attempt_count": 1,
        "run_at": at(10),
        "created_at": BEGAN,
        "completed_at": ended,
    }
    return Execution(**values | changes)


def attempt(number: int, start: float, took: float, error: dict[str, Any] | None, due: float | None) -> AttemptRecord:
    return AttemptRecord(
        attempt_id=f"att_{number}",
        execution_id="exec_1",
        attempt_number=number,
        status=AttemptStatus.FAILED if error else AttemptStatus.SUCCESS,
        worker_id="wrk_1",
        started_at=at(start),
        completed_at=at(start + took),
        duration_ms=round(took * 1000),
        output=None,
        error=error,
        created_at=at(start + took),
        due_at=None if due is None else at(due),
    )


def kinds(found: Timeline) -> list[list[str]]:
    return [[piece.kind for piece in row.pieces] for row in found.rows]


def test_each_wait_and_each_outcome_has_its_kind() -> None:
    tried = [
        attempt(4, 400, 1, None, 400),
        attempt(3, 300, 1, LOST, 280),
        attempt(2, 100, 5, REFUSED, 95),
        attempt(1, 12, 5, UNCERTAIN, 10),
    ]
    found = timeline(execution(ExecutionStatus.SUCCESS), tried, at(600))
    assert kinds(found) == [
        ["planned", "late", "uncertain"],
        ["planned", "late", "bad"],
        ["planned", "late", "lost"],
        ["planned", "good"],
    ]
    assert [row.note for row in found.rows] == [
        "5.0 s · timeout",
        "5.0 s · http error",
        "1.0 s · worker lost",
        "1.0 s · delivered",
    ]


@each_case(
    ("status", "changes", "last"),
    [
        (ExecutionStatus.QUEUED, {"run_at": at(10)}, ["planned", "late"]),
        (ExecutionStatus.PENDING, {"run_at": at(900)}, ["planned"]),
        (ExecutionStatus.RUNNING, {"started_at": at(11)}, ["planned", "late", "busy"]),
        (ExecutionStatus.FAILED, {"attempt_count": 0}, ["planned", "late"]),
    ],
)
def test_execution_without_an_ended_attempt_shows_its_wait(
    status: ExecutionStatus, changes: dict[str, Any], last: list[str]
) -> None:
    assert kinds(timeline(execution(status, **changes), [], at(60)))[-1] == last


@each_case("took", [0.001, 1, 3600, 86_400])
def test_pieces_are_in_order_within_the_picture_and_can_be_seen(took: float) -> None:
    tried = [attempt(n, 100_000 * n, took, REFUSED, 100_000 * n - 30) for n in range(20, 0, -1)]
    found = timeline(execution(ExecutionStatus.FAILED), tried, at(3_000_000))
    pieces = [piece for row in found.rows for piece in row.pieces]
    assert all(piece.x >= LEFT and piece.x + piece.width <= LEFT + WIDTH + 4 for piece in pieces)
    assert all(first.x <= second.x for first, second in pairwise(pieces))
    assert min(piece.width for piece in pieces if piece.kind == "bad") >= 3


def test_long_idle_stretch_is_folded_and_says_how_long() -> None:
    tried = [attempt(2, 90_000, 5, None, 90_000), attempt(1, 10, 5, REFUSED, 10)]
    found = timeline(execution(ExecutionStatus.SUCCESS, created_at=at(9)), tried, at(90_010))
    assert [fold.label for fold in found.folds] == ["1 d folded"]
    runs = [piece for row in found.rows for piece in row.pieces if piece.kind in {"bad", "good"}]
    assert min(piece.width for piece in runs) > 100


def test_only_the_latest_attempts_are_drawn() -> None:
    tried = [attempt(n, 100 * n, 1, REFUSED, None) for n in range(MAX_ROWS + 7, 0, -1)]
    found = timeline(execution(ExecutionStatus.FAILED), tried, at(100_000))
    assert (len(found.rows), found.left_out) == (MAX_ROWS, 7)
    assert sum(len(row.pieces) for row in found.rows) <= 200


@each_case(
    ("lease", "expected"),
    [
        (at(60), Loss(at(60), at(90))),
        (at(11), Loss(None, at(90))),  # of an earlier time
        (at(400), Loss(None, at(90))),  # renewed since
        (None, Loss(None, at(90))),  # the row of the worker was deleted
    ],
)
def test_lease_counts_if_it_ended_during_the_attempt(lease: datetime | None, expected: Loss) -> None:
    holders = Holders({} if lease is None else {"wrk_1": lease}, {3: at(90)})
    assert loss_of(attempt(3, 20, 60, LOST, 20), holders) == expected
    assert loss_of(attempt(3, 20, 60, REFUSED, 20), holders) == Loss(), "an attempt that was not lost"


def test_result_is_refused_after_the_reclaim_even_if_clocks_differ() -> None:
    assert loss_of(attempt(3, 20, 60, LOST, 20), Holders({}, {3: at(79)})) == Loss(None, at(80))


def test_picture_shows_how_long_nobody_held_the_execution_and_its_late_result() -> None:
    tried = [attempt(2, 100, 5, None, 80), attempt(1, 10, 60, LOST, 10)]
    found = timeline(execution(ExecutionStatus.SUCCESS), tried, at(600), Holders({"wrk_1": at(60)}, {1: at(90)}))
    assert kinds(found)[0] == ["planned", "lost", "unheld", "refused"]
    _, lost, unheld, refused = found.rows[0].pieces
    assert unheld.title == "lease ended 12:01:00, taken back 12:01:10, 10.0 s later"
    assert refused.title == "its result came 12:01:30, and was refused"
    assert lost.x < unheld.x < refused.x
    assert {"unheld", "refused"} < found.kinds
