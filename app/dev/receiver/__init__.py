"""An HTTP server that records what it receives, and misbehaves on request: see `behaviours`."""

from app.dev.receiver.record import Received, Record
from app.dev.receiver.server import Receiver

__all__ = ["Received", "Receiver", "Record"]
