"""Errors of the driver, as the engine's listeners see them first."""

from typing import Any


def mark_disconnects(context: Any) -> None:
    """Give a connection up also where SQLAlchemy does not know that it is lost."""
    # SQLAlchemy's list of messages lacks CockroachDB's shutdown text; the SQLSTATE is the same on both engines.
    # A server that is read-only (25006) was the primary before a failover: the next connection may find the new one.
    state = getattr(context.original_exception, "pgcode", None)
    if state is not None and (state.startswith(("08", "57P")) or state == "25006"):
        context.is_disconnect = True


def hide_values(context: Any) -> None:
    """Shorten what the server said to its first line and its SQLSTATE: the rest may hold whole rows.

    So may the first line, where the server refuses a value (class 22).
    """
    original, wrapped = context.original_exception, context.sqlalchemy_exception
    state = getattr(original, "pgcode", None)
    if state is None:
        return
    line = type(original).__name__ if state.startswith("22") else str(original).partition("\n")[0]
    original.args = (f"{line} (SQLSTATE {state})",)
    if wrapped is not None:
        wrapped.args = (f"({type(original).__name__}) {original.args[0]}",)
