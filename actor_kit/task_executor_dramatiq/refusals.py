"""Refusals of a worker: actors of this process that it does not register."""

from collections.abc import Mapping

MAX_SHOWN = 3


def refusal_line(refused: Mapping[str, str]) -> str:
    """Return a line about refused actors: their number, the reasons of the first, and the next step."""
    shown = "; ".join(f"{actor}: {reason.rstrip('.')}" for actor, reason in [*refused.items()][:MAX_SHOWN])
    more = f"; and {len(refused) - MAX_SHOWN} more" if len(refused) > MAX_SHOWN else ""
    noun, them = ("1 actor", "it") if len(refused) == 1 else (f"{len(refused)} actors", "them")
    return (
        f"the worker refuses {noun} of this process, and sends no message of {them} here: {shown}{more}. Remove the "
        "reason and restart the process; GET /actors shows each refusal"
    )
