"""The walker of a scheduler: goes on with each walk that is under way, the oldest rows first, each exactly once.

What a transaction sees to, it also counts, and notes how far the walk came. What cannot be seen to is counted and left
as it is: a batch that fails as a whole is halved until what is to blame is alone. What fails in our own code may be a
bug of ours: the walk stands still there, and the log names the place.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sqlalchemy.exc import DBAPIError

from app.kernel.db import Database, hardly_wait
from app.kernel.db.paging import Position
from app.kernel.db.retries import explained, is_rows_fault, is_statements_fault
from app.kernel.errors import ConflictError, TaskExecutorError
from app.queue.bulk.walks import BEGINNING, Step, Walk, Walks
from app.queue.executions.several import Treated

log = logging.getLogger(__name__)

MOST_COUNTED = 10_000  # rows that a preview looks at
SAMPLE = 10
MOST_RATE = 10_000  # in a second: as fast as the database goes
MOST_RUNNING = 20  # of a kind, in a round; then it is the turn of those that waited
TURN_SECONDS = 2.0  # after which the next walk has its turn
AT_ONCE = 500  # rows in a transaction

Q = TypeVar("Q")
T = TypeVar("T")
W = TypeVar("W", bound=Walk)


@dataclass(frozen=True, slots=True)
class Place(Generic[T]):
    """A row of the index that a walk reads, and what is wanted of it; None where the filter does not want it."""

    position: Position
    item: T | None


class Kind(Protocol[W, Q, T]):
    """A kind of walk: `Q` is its filter, `T` what it sees to."""

    walks: Walks[W]

    def filter_of(self, walk: W) -> Q:
        """Return the filter of a walk, bounded by the instant at which it began."""
        ...

    def next(self, database: Database, wanted: Q, after: Position, limit: int) -> Sequence[Place[T]]:
        """Read the next rows of the index, the oldest first; fewer than `limit` are the last ones."""
        ...

    def at_once(self, walk: W) -> int:
        """Return how many rows a transaction may see to."""
        ...

    def see_to(self, walk: W, items: Sequence[T]) -> Treated:
        """See to what is wanted, in the joint transaction of this thread; raises what makes all of it impossible."""
        ...


@dataclass(frozen=True, slots=True)
class Preview(Generic[T]):
    """What a walk would see to: how much, and the first of it; not `is_complete`: it may be more."""

    count: int
    sample: Sequence[T]
    is_complete: bool


class Lap(NamedTuple):
    """How much a walk saw to, and how much was refused."""

    done: int = 0
    refused: int = 0

    @property
    def seen(self) -> int:
        """Both."""
        return self.done + self.refused

    def plus(self, other: "Lap") -> "Lap":
        """Add what another stretch did."""
        return Lap(self.done + other.done, self.refused + other.refused)


class _NotHeldError(Exception):
    """Somebody has paused or stopped the walk, or another scheduler has gone on with it."""


def preview(database: Database, kind: Kind[Any, Q, T], wanted: Q) -> Preview[T]:
    """Look for what a walk of this filter would begin with, among 10,000 rows of its index at most."""
    found, after, looked = list[T](), BEGINNING, 0
    while looked < MOST_COUNTED:
        places = kind.next(database, wanted, after, AT_ONCE)
        found += [place.item for place in places if place.item is not None]
        looked += len(places)
        if len(places) < AT_ONCE:
            return Preview(len(found), found[:SAMPLE], is_complete=True)
        after = places[-1].position
    return Preview(len(found), found[:SAMPLE], is_complete=not kind.next(database, wanted, after, 1))


class Walker:
    """Goes on with the walks of some kinds, for one scheduler, `who`."""

    def __init__(
        self,
        database: Database,
        kinds: Sequence[Kind[Any, Any, Any]],
        who: str,
        *,
        hint: Callable[[str], object],
        stopping: Callable[[], bool],
    ) -> None:
        self._database = database
        self._kinds = kinds
        self._who = who
        self._hint = hint
        self._stopping = stopping

    def walk(self, tell: Callable[[Lap], object] = lambda _lap: None) -> Lap:
        """See to as much of each walk as it may in a second; returns how much that was, and how much was refused.

        `tell` is told of each stretch once it is committed. A walk that cannot go on holds up no other; raises its
        error once the others have had their turn.
        """
        total, failure = Lap(), None
        for kind in self._kinds:
            for walk_id in kind.walks.running(self._database, limit=MOST_RUNNING):
                if self._stopping():
                    break
                try:
                    total = total.plus(self._go_on(kind, walk_id, tell))
                except Exception as error:  # noqa: BLE001 - raised below
                    why = " ".join([explained(error), *getattr(error, "__notes__", ())])
                    log.warning("the %s %s cannot go on now: %s", kind.walks.noun, walk_id, why)
                    failure = failure or error
        if failure is not None:
            raise failure
        return total

    def _go_on(self, kind: Kind[Any, Any, Any], walk_id: str, tell: Callable[[Lap], object]) -> Lap:
        if not kind.walks.hold(self._database, walk_id, self._who):
            return Lap()

        def note(treated: Treated, lap: Lap) -> None:
            tell(lap)
            for queue in treated.queues:
                self._hint(queue)

        return _Turn(self._database, kind, walk_id, self._who, note).take(self._stopping)


class _Turn(Generic[W, Q, T]):
    """The turn of one walk, which this scheduler holds."""

    def __init__(
        self,
        database: Database,
        kind: Kind[W, Q, T],
        walk_id: str,
        who: str,
        note: Callable[[Treated, Lap], None],
    ) -> None:
        self._database = database
        self._kind = kind
        self._walk_id = walk_id
        self._who = who
        self._note = note
        self._walk = kind.walks.get(database, walk_id)

    def take(self, stopping: Callable[[], bool]) -> Lap:
        """Go on until the rate, the time or the end is reached, or somebody else has taken, paused or stopped it."""
        wanted, at_once = self._kind.filter_of(self._walk), self._kind.at_once(self._walk)
        after, until, total = self._walk.reached, time.monotonic() + TURN_SECONDS, Lap()
        while not stopping():
            places = self._kind.next(self._database, wanted, after, AT_ONCE)
            taken = up_to(places, min(self._walk.rate - total.seen, at_once))
            is_last = len(taken) == len(places) < AT_ONCE
            try:
                total = total.plus(self._see_to(after, taken, is_last=is_last))
            except _NotHeldError:
                break
            if is_last or total.seen >= self._walk.rate or time.monotonic() >= until:
                break
            after = taken[-1].position
        return total

    def _see_to(self, after: Position, places: Sequence[Place[T]], *, is_last: bool) -> Lap:
        """See to what is wanted of these rows, in one transaction where that is possible."""
        items = [place.item for place in places if place.item is not None]

        def treat() -> Treated:
            return self._kind.see_to(self._walk, items) if items else Treated()

        try:
            return self._step(after, places, treat, is_last=is_last)
        except _NotHeldError:
            raise
        except Exception as error:
            refusal = _refusal(error)
            if not items or (refusal is None and _is_no_rows(error)):
                raise
            if len(items) == 1:
                if refusal is None:
                    error.add_note(f"at {next(place.position.key for place in places if place.item is not None)}")
                    raise
                refused = Treated(refused={"": refusal})
                return self._step(after, places, lambda: refused, is_last=is_last)
        half = len(places) // 2
        first = self._see_to(after, places[:half], is_last=False)
        return first.plus(self._see_to(places[half - 1].position, places[half:], is_last=is_last))

    def _step(self, after: Position, places: Sequence[Place[T]], treat: Callable[[], Treated], *, is_last: bool) -> Lap:
        wanted = sum(place.item is not None for place in places)
        reached = places[-1].position if places else after

        def body() -> tuple[Treated, Lap]:
            self._database.transact(hardly_wait)
            if not self._kind.walks.lock(self._database, self._walk_id, after):
                raise _NotHeldError
            treated = treat()
            lap = Lap(wanted - len(treated.refused), len(treated.refused))
            refusal = next((error.message for error in [*treated.refused.values()][::-1]), None)
            step = Step(reached, lap.done, lap.refused, refusal, is_last=is_last)
            if not self._kind.walks.advance(self._database, self._walk_id, self._who, after, step):
                raise _NotHeldError
            return treated, lap

        treated, lap = self._database.transact_jointly(body)
        self._note(treated, lap)
        return lap


def _refusal(error: Exception) -> TaskExecutorError | None:
    """Return why something cannot be seen to; None where it is no fault of it: of the database's, or of ours."""
    if isinstance(error, TaskExecutorError):
        return error if error.status < 500 else None
    if not isinstance(error, DBAPIError) or not is_rows_fault(error) or is_statements_fault(error):
        return None
    log.warning("what a walk came to cannot be seen to: %s", explained(error))
    return ConflictError(f"Something stored is not as it should be ({type(error).__name__}).")


def _is_no_rows(error: Exception) -> bool:
    """Return whether no row can have brought about an error: of the database's, or one that tells of it."""
    return isinstance(error, DBAPIError | TaskExecutorError)


def up_to(places: Sequence[Place[T]], most: int) -> Sequence[Place[T]]:
    """Return the first rows, of which so many are wanted at most; what is not wanted behind the last of them, too."""
    seen = 0
    for number, place in enumerate(places):
        seen += place.item is not None
        if seen > most:
            return places[:number]
    return places
