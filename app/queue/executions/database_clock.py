"""Database clock: conversion of the database's time to `time.monotonic()`."""

from datetime import datetime

DRIFT = 5e-4  # maximum drift between the two clocks per second: the slew rate of NTP, 500 ppm
QUICK_SECONDS = 0.005  # a longer round trip may have gone to another server, over a new connection


class DatabaseClock:
    """Estimator of the difference between the two clocks, updated by each statement; belongs to one thread.

    The database reads its clock between the sending of a statement and the arrival of the answer, which bounds the
    difference on both sides (Cristian, "Probabilistic clock synchronization", 1989). The estimator keeps the lowest
    recent upper bound, so a converted time is never early, and late by at most the fastest round trip. The bound is
    replaced if an answer contradicts it, or is slow: the server or its clock may have changed. With `learns` false,
    each answer counts alone, because it may come from another server (CockroachDB).
    """

    def __init__(self, *, learns: bool = True) -> None:
        self._learns = learns
        self._bound = 0.0
        self._learned_at = -float("inf")

    def here(self, began: datetime, ended: datetime, *, asked_at: float, answered_at: float) -> float:
        """Return the start of a statement on time.monotonic().

        The statement began and ended at these times of the database; it was sent at `asked_at` or later and answered at
        `answered_at`.
        """
        earliest, latest = asked_at - began.timestamp(), answered_at - max(began, ended).timestamp()
        latest += (answered_at - asked_at) * DRIFT  # the bound is of the end, not of the beginning
        aged = self._bound + (answered_at - self._learned_at) * DRIFT
        is_quick = latest - earliest <= QUICK_SECONDS
        self._bound = min(aged, latest) if self._learns and is_quick and aged >= earliest else latest
        self._learned_at = answered_at
        return began.timestamp() + self._bound
