"""HTTP server that records its requests and misbehaves on demand: see `behaviours`."""

from app.dev.receiver.receiver_server import Receiver
from app.dev.receiver.record import Received, Record

__all__ = ["Received", "Receiver", "Record"]
