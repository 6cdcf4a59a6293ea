"""The command lines of the product's processes: those of the Procfile and the README, in this interpreter."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

MIGRATE = ("flask", "--app", "app", "db", "upgrade")
SCHEDULER = ("app.scheduler",)
WEB = ("gunicorn", "--config", "python:app.api.server", "app:create_app()")


def create_key(name: str, scopes: str) -> tuple[str, ...]:
    return ("flask", "--app", "app", "api-keys", "create", name, "--scopes", scopes)


def revoke_key(key: str) -> tuple[str, ...]:
    # What is up to its second underscore names it.
    return ("flask", "--app", "app", "api-keys", "revoke", key.split("_")[1])


def worker(processes: int, threads: int) -> tuple[str, ...]:
    return ("dramatiq", "actors", "--processes", str(processes), "--threads", str(threads))


def argv(module: tuple[str, ...]) -> list[str]:
    """Run it with this very Python: a script's first line may name another one."""
    return [sys.executable, "-m", *module]
