"""Benchmarks of the product beside other task queues and the bare stack; `benchmarks.peers` has its own environment."""
