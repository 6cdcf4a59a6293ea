"""Limits that several tests of processes share."""

# Soon over once its worker is dead, and not because the machine is busy.
SHORT_LEASE = {"TE_WORKER_TIMEOUT_SEC": "5"}
ENDED_SECONDS = 60.0  # a process that has not ended by then hangs
