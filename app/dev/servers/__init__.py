"""Real servers out of Python wheels, each behind one small module, so that another wheel can take its place."""

from app.dev.servers.dev_server import Server, ServerError
from app.dev.servers.postgres import Postgres
from app.dev.servers.tansu import Tansu
from app.dev.servers.valkey import Valkey

__all__ = ["Postgres", "Server", "ServerError", "Tansu", "Valkey"]
