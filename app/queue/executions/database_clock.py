"""Database clock: which instant of `time.monotonic()` an instant of the database's clock is."""

from datetime import datetime

# By how much the two clocks may move apart in a second: what NTP slews a clock by (500 ppm).
DRIFT = 5e-4
# A question that took longer, but for its work, may have gone to another server, over a new connection.
QUICK_SECONDS = 0.005


class DatabaseClock:
    """Learns from each answer of the database; belongs to one thread.

    The database read its clock after the question was sent and before the answer was here, which bounds the difference
    of the two clocks from both sides (Cristian, "Probabilistic clock synchronization", 1989). The lowest upper bound of
    late is kept, so that an instant is never taken for an earlier one, and later by no more than what the quickest
    answer was under way. A bound that an answer contradicts is of another server, or of before its clock was set back.
    So may one be that it does not contradict, if it took long. Where each answer may be of another server (CockroachDB)
    nothing is learned: `learns` is false.
    """

    def __init__(self, *, learns: bool = True) -> None:
        self._learns = learns
        self._bound = 0.0
        self._learned_at = -float("inf")

    def here(self, began: datetime, ended: datetime, *, asked_at: float, answered_at: float) -> float:
        """Return the instant here at which a statement began there.

        It began and ended at these instants by the database's clock; it was sent at `asked_at` or later, and its answer
        was here at `answered_at`.
        """
        earliest, latest = asked_at - began.timestamp(), answered_at - max(began, ended).timestamp()
        latest += (answered_at - asked_at) * DRIFT  # a bound of the end, which is not that of the beginning
        aged = self._bound + (answered_at - self._learned_at) * DRIFT
        is_quick = latest - earliest <= QUICK_SECONDS
        self._bound = min(aged, latest) if self._learns and is_quick and aged >= earliest else latest
        self._learned_at = answered_at
        return began.timestamp() + self._bound
