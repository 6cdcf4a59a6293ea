"""Pace of a process: how long its messages take, and so how many it gets in advance."""

QUICK_SECONDS = 0.25  # a process with quicker actors gets two messages for each of its threads
AHEAD_SECONDS = 0.02  # of work that a process gets in advance; a claim takes less
PER_THREAD, MAX_PER_THREAD = 2, 16
MIN_MEASURED = 16  # messages until a mean is trusted
_WEIGHT = 0.2  # share of the latest message in the mean duration


class Pace:
    """Durations of the messages of one process, from their start to their outcome."""

    def __init__(self) -> None:
        self._mean_seconds = 0.0
        self._measured = 0
        self.per_thread = self._chosen()

    def _chosen(self) -> int:
        """Return the number of messages for each thread: one for slow actors, as another process may be free sooner.

        Between two claims a process with very quick actors would run out of a second message, so it gets more.
        """
        if self._mean_seconds >= QUICK_SECONDS:
            return 1
        if self._measured < MIN_MEASURED:
            return PER_THREAD
        ahead = MAX_PER_THREAD * self._mean_seconds
        return MAX_PER_THREAD if ahead <= AHEAD_SECONDS else max(PER_THREAD, int(AHEAD_SECONDS / self._mean_seconds))

    def ended(self, seconds: float) -> bool:
        """Measure a message; return whether the number of messages for each thread has changed."""
        self._mean_seconds += _WEIGHT * (seconds - self._mean_seconds)
        self._measured += 1
        before, self.per_thread = self.per_thread, self._chosen()
        return self.per_thread != before

    def slow_down(self) -> None:
        """Trust the mean no longer: messages that came in advance wait behind slow ones, which have not ended."""
        self._measured = 0
        self.per_thread = self._chosen()
