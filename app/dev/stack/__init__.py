"""The product as processes of this machine: one runner for the demo, the verifier, the tests and the benchmarks."""
