"""An HTTP server that records what it receives, and misbehaves on request: see `behaviours`."""

from app.dev.receiver.receiver_server import Receiver
from app.dev.receiver.record import Received, Record

__all__ = ["Received", "Receiver", "Record"]
