"""Bounds of the values of rate limiters of Dramatiq, for the SQL functions `te_limiter_…`."""

MAX_LIMITER_KEY = 500  # characters
MAX_LIMITER_KEYS = 3_600  # that one change sums: a window of an hour
MAX_LIMITER_VALUE = 10**15  # also below zero
MAX_PARTY = 100  # characters
