"""Task queues that are measured, each behind the same four verbs."""
