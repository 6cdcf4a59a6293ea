"""Traces: the trace context of jobs, and spans of requests and attempts."""
