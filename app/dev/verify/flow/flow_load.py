"""Load of flow: waves of jobs that are more than the limits of their endpoints let through at once."""

import threading
import time

from app.dev.receiver import Receiver
from app.dev.verify.flow.flow_endpoints import FlowEndpoints
from app.dev.verify.job_load import NewClient, create_all
from app.dev.verify.ledger import Ledger

_WAVE_SECONDS = 8.0
_BROKEN_SHARE = 0.4  # of the duration


class FlowLoad:
    """A thread that creates waves, and heals what is broken in the midst of the run."""

    def __init__(self, client: NewClient, endpoints: FlowEndpoints, ledger: Ledger, receiver: Receiver) -> None:
        self._client = client
        self._endpoints = endpoints
        self._ledger = ledger
        self._receiver = receiver
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)
        self._seconds = 0.0

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self, seconds: float) -> None:
        """Create waves for so many seconds."""
        self._seconds = seconds
        self._thread.start()

    def stop(self) -> None:
        """End early, and wait for the answers that are under way."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _heal(self) -> None:
        self._receiver.release(self._endpoints.broken_path)

    def _run(self) -> None:
        began, number = time.monotonic(), 0
        healing = threading.Timer(self._seconds * _BROKEN_SHARE, self._heal)
        healing.daemon = True
        healing.start()
        while number * _WAVE_SECONDS < self._seconds:
            if self._stopping.wait(max(0.0, began + number * _WAVE_SECONDS - time.monotonic())):
                break
            create_all(self._client, self._ledger, self._endpoints.wave(number), self._stopping)
            number += 1
        # Who ends the run early does not wait for an hour's two fifths.
        self._stopping.wait(max(0.0, began + self._seconds * _BROKEN_SHARE - time.monotonic()))
        healing.cancel()
        self._heal()
