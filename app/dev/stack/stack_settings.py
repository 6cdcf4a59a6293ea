"""The product's settings that a developer's environment hands through the development stack."""

import os

# Made by the stack itself.
_OURS = {"TE_DATABASE_URL", "TE_LISTEN_ADDR"}
_DEFAULT_PORT = 8080
_SHUTDOWN = {"TE_WORKER_SHUTDOWN_TIMEOUT_SEC": "5"}  # whoever presses Ctrl-C is waiting


def product_environment() -> dict[str, str]:
    """Return the TE_ variables of the environment, such as TE_LOG_LEVEL, that the stack doesn't choose itself."""
    # An empty variable counts as not set, and must not take the place of what the stack sets.
    given = {
        name: value for name, value in os.environ.items() if name.startswith("TE_") and value and name not in _OURS
    }
    return _SHUTDOWN | given


def preferred_port() -> int:
    """Return the port of TE_LISTEN_ADDR, or 8080; another one is taken when it is in use."""
    _host, _colon, port = os.environ.get("TE_LISTEN_ADDR", "").rpartition(":")
    return int(port) if port.isdigit() else _DEFAULT_PORT
