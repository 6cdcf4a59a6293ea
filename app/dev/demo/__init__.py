"""Demo: jobs of every trigger and transport, and a comparison with the records of their receivers."""
