"""Collector of cycles: what it need not look at in a worker process, and how often it looks."""

import gc

# Deliveries make no cycles as a rule, so there is little to find; thousands of them, waiting, make each look long.
THRESHOLDS = (5_000, 10, 10)


def spare_what_is_there() -> None:
    """Leave out of all collections what this process has by now: its modules stay for as long as it lives.

    A collection holds up every thread, and so every delivery, for as long as it looks.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
