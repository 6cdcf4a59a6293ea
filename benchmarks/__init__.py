"""Measurements beside other task queues and the bare stack, in one run. Only `benchmarks.peers` runs in their venv."""
