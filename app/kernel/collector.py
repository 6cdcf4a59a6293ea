"""Garbage collector: settings of long-lived processes."""

import gc

# Deliveries and requests rarely create cycles, and with thousands of jobs in memory each collection is slow.
THRESHOLDS = (5_000, 10, 10)


def spare_what_is_there() -> None:
    """Exempt all current objects, mostly modules, from collections, which stop every thread while they run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
