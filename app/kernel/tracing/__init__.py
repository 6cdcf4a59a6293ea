"""Traces: what a job keeps of the request that created it (W3C Trace Context)."""
