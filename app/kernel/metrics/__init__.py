"""Metrics: what a process has counted, and how Prometheus reads it. Nothing here blocks or slows what is measured."""

import os

from app.kernel.metrics.values import Values

PROCESS = Values()
"""What this process counts. Whoever exists more than once in a process in tests is given values of its own."""

os.register_at_fork(after_in_child=PROCESS.clear)
