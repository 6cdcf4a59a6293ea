"""Redriving: redrives of the dead letters of a run, again and again, while further letters come."""

from app.dev.verify.ending import ending_reading
from app.dev.verify.load_client import LoadClient
from app.dev.verify.verify_endpoints import VerifyEndpoints
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.threads import BackgroundThread

_EVERY_SECONDS = 6.0
_RATE = 100


class Redriving(BackgroundThread):
    """Thread that redrives the letters of one endpoint as retries, and of another endpoint as new jobs."""

    def __init__(self, client: LoadClient, endpoints: VerifyEndpoints, database: Database) -> None:
        super().__init__("te-verify-redriving")
        self._client = client
        self._endpoints = endpoints
        self._database = database
        self.owed: frozenset[str] = frozenset()
        """Ids of letters that were open before an accepted request to redrive them."""

    def run(self) -> None:
        while not self.stopping.wait(_EVERY_SECONDS):
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
