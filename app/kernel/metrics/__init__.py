"""Metrics: counters, gauges and histograms of a process, and their Prometheus endpoint; updates never block."""

import os

from app.kernel.metrics.values import Values

PROCESS = Values()
"""Metrics of this process. A component that tests create several times per process gets values of its own."""

os.register_at_fork(after_in_child=PROCESS.clear)
