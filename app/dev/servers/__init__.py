"""Real servers from Python wheels, each behind a small module, so that a wheel can be replaced."""

from app.dev.servers.dev_server import Server, ServerError
from app.dev.servers.postgres import Postgres
from app.dev.servers.tansu import Tansu
from app.dev.servers.valkey import Valkey

__all__ = ["Postgres", "Server", "ServerError", "Tansu", "Valkey"]
