"""Redriving: redrives of the dead letters of a run, again and again, while further letters come."""

import threading

from app.dev.verify.ending import ending_reading
from app.dev.verify.load_client import LoadClient
from app.dev.verify.verify_endpoints import VerifyEndpoints
from app.kernel.db import Database
from app.kernel.errors import UnavailableError

_EVERY_SECONDS = 6.0
_RATE = 100


class Redriving:
    """Thread that redrives the letters of one endpoint as retries, and of another endpoint as new jobs."""

    def __init__(self, client: LoadClient, endpoints: VerifyEndpoints, database: Database) -> None:
        self._client = client
        self._endpoints = endpoints
        self._database = database
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redriving", daemon=True)
        self.owed: frozenset[str] = frozenset()
        """Ids of letters that were open before an accepted request to redrive them."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin no further redrive; redrives under way continue."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY_SECONDS):
            for endpoint, to_endpoint in self._endpoints.redriven.items():
                self._redrive(endpoint, to_endpoint)

    def _redrive(self, endpoint: str, to_endpoint: str | None) -> None:
        try:
            letters = ending_reading.open_letters(self._database, endpoint)
        except UnavailableError:
            return
        body = {"wanted": {"endpoint": endpoint}, "to_endpoint": to_endpoint, "rate": _RATE}
        if letters and self._client.ask("/redrives", body) is not None:
            self.owed |= letters
