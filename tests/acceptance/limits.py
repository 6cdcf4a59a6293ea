"""Time limits of tests of processes."""

# Short enough for a fast reclaim, and long enough for renewals on a busy machine.
SHORT_LEASE = {"TE_WORKER_TIMEOUT_SEC": "5"}
ENDED_SECONDS = 60.0  # a process that takes longer to end has hung
