"""Slots and histograms of the rollups of deliveries: their columns are made from these bounds."""

STEPS_S = (10, 60, 3600)
"""Lengths of slots in seconds; each is a multiple of the one before, from which it is summed up."""

LATE_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 60_000, 600_000, 3_600_000)
"""Upper bounds of the classes of lateness, as in `task_executor_execution_delay_seconds`; one more class follows."""

TOOK_MS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
"""Upper bounds of the classes of durations, as in `task_executor_worker_job_duration_seconds`; one more follows."""

LATE_COLUMNS = tuple(f"late_{number}" for number in range(len(LATE_MS) + 1))
TOOK_COLUMNS = tuple(f"took_{number}" for number in range(len(TOOK_MS) + 1))
