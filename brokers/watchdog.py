"""Ends a worker whose lease is over or whose deliveries stand still, when who should say so is what hangs."""

import threading
import time
from collections.abc import Callable

LastSign = Callable[[], float]
"""Tells when a thread showed its last sign of life, by `time.monotonic()`."""


class Watchdog:
    """Looks at the signs of life of other threads, from one that waits for nothing but the clock."""

    def __init__(self, longest_seconds: float, give_up: Callable[[str], None]) -> None:
        self._longest = longest_seconds
        self._give_up = give_up
        self._signs: dict[str, LastSign] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="te-guard", daemon=True)

    def watch(self, name: str, sign: LastSign) -> None:
        """Watch one more thread; before start."""
        self._signs[name] = sign

    def start(self) -> None:
        """Start looking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking: from now on silence is in order."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._longest / 8):
            now = time.monotonic()
            for name, sign in self._signs.items():
                if now - sign() > self._longest:
                    return self._give_up(f"its {name} stood still for {now - sign():.1f} s")
        return None
