"""Collector of cycles: what it need not look at in a process that lasts, and how often it looks."""

import gc

# Deliveries and requests make no cycles as a rule, so there is little to find; thousands of jobs make each look long.
THRESHOLDS = (5_000, 10, 10)


def spare_what_is_there() -> None:
    """Leave out of all collections what this process has by now: its modules stay for as long as it lives.

    A collection holds up every thread for as long as it looks.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
