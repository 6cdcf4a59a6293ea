"""Clock of the stack for tests."""

from datetime import datetime, timedelta

from ..definition_differences import milliseconds
from .stack import Stack


class Clock:
    """Clock of the whole service; the fixture `te_clock`. Each test begins at the time of the machine.

    It runs on between two moves. The clock of the test's own process is never moved.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def now(self) -> datetime:
        """Return the time of the service, in UTC.

        Returns:
            The time.

        Example:
            te_clock.advance(datetime(2030, 1, 1, tzinfo=UTC) - te_clock.now())
        """
        return datetime.fromisoformat(self._stack.ask("now"))

    def advance(self, by: str | timedelta, *, timeout: float = 60.0) -> int:
        """Move the clock, and return when all work that is due by then has ended.

        The clock stops at each instant at which something becomes due: a delayed job, a tick of a repeating job, a
        retry, an expiry, a breaker or a rate that lets deliveries through again. The clock moves on after all
        deliveries of that instant have been answered. So 72 hourly ticks arrive in their order, and none is missed.

        Args:
            by: Duration such as `90s`, `10m`, `1h` or `3d`, or a timedelta; not negative.
            timeout: Limit in seconds of real time.

        Returns:
            The number of instants at which the clock stopped, its end included.

        Raises:
            ValueError: The duration is malformed or negative.
            StackError: A delivery was not answered in time, or a process of the stack has ended. The clock stands at
                the instant that it reached.
            RuntimeError: A handler of a delivery called it.
            Exception: A handler raised it.

        Example:
            te_clock.advance("3d")
        """
        distance = by / timedelta(milliseconds=1) if isinstance(by, timedelta) else milliseconds(by)
        if not isinstance(distance, int | float) or distance < 0:
            raise ValueError(f"a duration such as 90s, 10m, 1h or 3d is needed, or a timedelta; not {by!r}")
        steps: int = self._stack.ask("advance", limit=timeout, milliseconds=distance, seconds=timeout)
        return steps
