"""Evaluator: will judge from heartbeats which regions are alive, and who adopts the others. Nobody starts it yet."""

import threading

EVERY_SECONDS = 5.0


def run(stopping: threading.Event) -> None:
    """Go round until it is stopped; with one region there is nothing to judge."""
    while not stopping.wait(EVERY_SECONDS):
        pass
