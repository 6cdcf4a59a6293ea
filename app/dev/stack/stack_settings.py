"""Settings of the product that the development stack takes from the developer's environment."""

import os

# Set by the stack itself.
_OURS = {"TE_DATABASE_URL", "TE_LISTEN_ADDR"}
_DEFAULT_PORT = 8080
_SHUTDOWN = {"TE_WORKER_SHUTDOWN_TIMEOUT_SEC": "5"}  # short, because the user waits after Ctrl-C


def product_environment() -> dict[str, str]:
    """Return the TE_ variables of the environment that the stack does not set itself, such as TE_LOG_LEVEL."""
    # An empty variable counts as unset and must not replace a value of the stack.
    given = {
        name: value for name, value in os.environ.items() if name.startswith("TE_") and value and name not in _OURS
    }
    return _SHUTDOWN | given


def preferred_port() -> int:
    """Return the port of TE_LISTEN_ADDR, or 8080; the stack chooses another port if it is in use."""
    _host, _colon, port = os.environ.get("TE_LISTEN_ADDR", "").rpartition(":")
    return int(port) if port.isdigit() else _DEFAULT_PORT
