"""Stack: the product as local processes, for the demo, the verifier, tests and benchmarks."""
