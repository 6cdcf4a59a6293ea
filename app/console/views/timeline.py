"""Timeline of an execution: its waits and attempts as a picture, with idle time folded; pure.

The scale is the same within a stretch, but long stretches in which nothing runs are cut short and marked, and an
attempt is never too narrow to be seen.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from app.console.views import words
from app.console.views.attempt_loss import LOST, NOBODY, Loss, loss_of
from app.queue.executions.execution_records import AttemptRecord, Execution
from app.queue.reading.holders import Holders
from schema.states import AttemptStatus, ExecutionStatus

MAX_ROWS = 40  # attempts that are drawn, the latest; five segments each
LEFT, WIDTH, RIGHT = 92, 900, 250  # of labels, of the scale, of notes
ROW, TOP, BOTTOM = 26, 30, 10
LEAST = 7.0  # units of an attempt
FOLDED = 26.0  # units of a stretch that is folded
MAX_TICKS = 6
_IDLE = frozenset({"planned", "late", "unheld"})


class Stretch(NamedTuple):
    """A stretch of one row, with its words.

    `kind` is planned, late, good, bad, uncertain, lost, unheld, refused or busy.
    """

    kind: str
    start: datetime
    end: datetime
    title: str


class DrawnStretch(NamedTuple):
    kind: str
    x: float
    width: float
    title: str


class TimelineRow(NamedTuple):
    """One attempt, or the wait for it."""

    label: str
    note: str
    y: int
    pieces: Sequence[DrawnStretch]


class Tick(NamedTuple):
    x: float
    label: str


class Timeline(NamedTuple):
    """The picture, in units of its view box."""

    rows: Sequence[TimelineRow]
    ticks: Sequence[Tick]
    folds: Sequence[Tick]
    left_out: int

    @property
    def kinds(self) -> set[str]:
        return {piece.kind for row in self.rows for piece in row.pieces}

    @property
    def width(self) -> int:
        return LEFT + WIDTH + RIGHT

    @property
    def height(self) -> int:
        return TOP + ROW * len(self.rows) + BOTTOM


class _Line(NamedTuple):
    label: str
    note: str
    pieces: Sequence[Stretch]


def timeline(
    execution: Execution, attempts: Sequence[AttemptRecord], now: datetime, holders: Holders = NOBODY
) -> Timeline:
    """Draw an execution; `attempts` are the latest first, as they are read."""
    shown = sorted(attempts, key=attrgetter("attempt_number"))[-MAX_ROWS:]
    lines = list(_lines(execution, shown, now, holders))
    scale = _Scale([piece for line in lines for piece in line.pieces])
    rows = [
        TimelineRow(line.label, line.note, TOP + ROW * number, [scale.drawn(piece) for piece in line.pieces])
        for number, line in enumerate(lines)
    ]
    return Timeline(rows, scale.ticks(now), scale.folds(), len(attempts) - len(shown))


def _lines(execution: Execution, attempts: Sequence[AttemptRecord], now: datetime, holders: Holders) -> Iterable[_Line]:
    before = execution.created_at
    for tried in attempts:
        yield _attempt(tried, before, loss_of(tried, holders), now)
        before = tried.completed_at or tried.started_at
    if execution.status is ExecutionStatus.RUNNING and execution.started_at is not None:
        number = execution.attempt_count
        waits = _waits(before, execution.run_at, execution.started_at)
        runs = Stretch("busy", execution.started_at, max(now, execution.started_at), "running")
        yield _Line(f"attempt {number}", f"running for {_span(execution.started_at, now)}", [*waits, runs])
    elif execution.completed_at is None:
        note = (
            f"due {words.ago(execution.run_at, now)}"
            if execution.run_at > now
            else f"due for {_span(execution.run_at, now)}"
        )
        yield _Line("next", note, _waits(before, execution.run_at, max(now, min(execution.run_at, before))))
    elif not attempts:
        yield _Line("ended", execution.status.lower(), _waits(before, execution.run_at, execution.completed_at))


def _attempt(tried: AttemptRecord, before: datetime, loss: Loss, now: datetime) -> _Line:
    ended = tried.completed_at or tried.started_at
    took = _span(tried.started_at, ended) if tried.duration_ms is None else words.duration(tried.duration_ms)
    error = tried.error or {}
    kind, outcome = _outcome(tried)
    title = f"attempt {tried.attempt_number}: {outcome}, {took}, on {tried.worker_id or 'no worker'}"
    pieces = [*_waits(before, tried.due_at or tried.started_at, tried.started_at)]
    pieces.append(Stretch(kind, tried.started_at, loss.lease_until or ended, title))
    type_ = str(error.get("type", "")).replace("_", " ").lower()
    if loss.lease_until is not None:
        unheld = f"lease ended {words.instant(loss.lease_until, now)}, taken back {words.instant(ended, now)}"
        pieces.append(Stretch("unheld", loss.lease_until, ended, f"{unheld}, {_span(loss.lease_until, ended)} later"))
    if loss.refused_at is not None:
        came = f"its result came {words.instant(loss.refused_at, now)}, and was refused"
        pieces.append(Stretch("refused", loss.refused_at, loss.refused_at, came))
    return _Line(f"attempt {tried.attempt_number}", f"{took} · {type_ or outcome}", pieces)


def _outcome(tried: AttemptRecord) -> tuple[str, str]:
    error = tried.error or {}
    if tried.status is AttemptStatus.SUCCESS:
        return "good", "delivered"
    if error.get("type") in LOST:
        return "lost", "its worker was lost"
    if str(error.get("may_have_been_delivered", True)).lower() == "true":
        return "uncertain", "failed, and may have been delivered"
    return "bad", "failed"


def _waits(before: datetime, due: datetime, start: datetime) -> list[Stretch]:
    """Return the wait until the due instant, and from there to the start."""
    due = min(max(due, before), start) if start > before else before
    found = []
    if due > before:
        found.append(Stretch("planned", before, due, f"waited {_span(before, due)} for its due time"))
    if start > due:
        found.append(Stretch("late", due, start, f"due, and waited {_span(due, start)} to start"))
    return found


def _span(start: datetime, end: datetime) -> str:
    return words.duration(max(0.0, (end - start) / timedelta(milliseconds=1)))


class _Scale:
    """Maps instants to places: stretches between the ends of pieces, each with a width of its own."""

    def __init__(self, pieces: Sequence[Stretch]) -> None:
        self._instants = sorted({at for piece in pieces for at in (piece.start, piece.end)})
        self._places = dict.fromkeys(self._instants, 0.0)
        self._folds = list[Tick]()
        stretches = list(zip(self._instants, self._instants[1:], strict=False))
        runs = [piece for piece in pieces if piece.kind not in _IDLE]
        is_busy = [any(piece.start <= start and end <= piece.end for piece in runs) for start, end in stretches]
        spans = [(end - start) / timedelta(milliseconds=1) for start, end in stretches]
        busy = sum(span for span, runs_in_it in zip(spans, is_busy, strict=True) if runs_in_it)
        idle = [span for span, runs_in_it in zip(spans, is_busy, strict=True) if not runs_in_it]
        longest = max(4 * busy, _typical(idle) * 3, 1.0) if busy or len(idle) > 1 else float("inf")
        shown = [min(span, longest) for span in spans]
        unit = WIDTH / max(sum(shown), 1.0)
        widths = [
            FOLDED * 3 if span > longest else max(each * unit, LEAST if runs_in_it else 2.0)
            for span, each, runs_in_it in zip(spans, shown, is_busy, strict=True)
        ]
        fit = WIDTH / max(sum(widths), 1.0)
        place = float(LEFT)
        for (start, end), width, span in zip(stretches, widths, spans, strict=True):
            self._places[start] = place
            place += width * fit
            self._places[end] = place
            if span > longest:
                middle = place - width * fit / 2
                self._folds.append(Tick(round(middle, 1), f"{words.duration(span)} folded"))

    def drawn(self, piece: Stretch) -> DrawnStretch:
        x = self._places[piece.start]
        least = 3.0 if piece.kind not in _IDLE else 0.5
        return DrawnStretch(piece.kind, round(x, 1), round(max(self._places[piece.end] - x, least), 1), piece.title)

    def folds(self) -> Sequence[Tick]:
        return self._folds

    def ticks(self, now: datetime) -> list[Tick]:
        """Return instants with room for their words, the first and the last first."""
        chosen = list[Tick]()
        order = [*self._instants[:1], *self._instants[-1:], *self._instants[1:-1]]
        for at in order:
            place = self._places[at]
            if len(chosen) < MAX_TICKS and all(abs(place - each.x) >= 110 for each in chosen):
                chosen.append(Tick(round(place, 1), words.instant(at, now)))
        return sorted(chosen, key=attrgetter("x"))


def _typical(spans: Sequence[float]) -> float:
    return sorted(spans)[(len(spans) - 1) // 2] if spans else 0.0
