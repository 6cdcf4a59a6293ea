"""How long to wait before the next attempt: pure arithmetic, randomness comes in as an argument."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Backoff = Literal["fixed", "linear", "exponential"]

MAX_RETRY_AFTER_MS = 24 * 3600 * 1000
_MAX_EXPONENT = 62  # a doubling beyond 2**62 ms is far above any cap and would only cost time


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The brief's `retry_policy`, with its defaults."""

    max_attempts: int = 1
    backoff: Backoff = "exponential"
    initial_delay_ms: int = 1000
    max_delay_ms: int = 60_000

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> "RetryPolicy":
        """Read a stored policy; absent fields take the defaults."""
        known = {name: (value or {})[name] for name in cls.__dataclass_fields__ if name in (value or {})}
        return cls(**known)


def delay_ms(policy: RetryPolicy, attempt: int, spread: float, retry_after_ms: int | None = None) -> int:
    """Compute the wait after failed attempt number `attempt` (1 is the first), in milliseconds.

    Brief 1, "Backoff Computation", with two repairs: the cap comes before the jitter, so that the wait still
    spreads once the cap is reached, and the jitter at the cap only shortens it. `spread` is uniform in [-1, 1].
    The receiver's Retry-After can only lengthen the wait, up to 24 hours.
    """
    base = min(_base_ms(policy, attempt), policy.max_delay_ms)
    low, high = base - base // 4, min(base + base // 4, policy.max_delay_ms)
    own = round(low + (high - low) * (spread + 1) / 2)
    return max(own, min(retry_after_ms or 0, MAX_RETRY_AFTER_MS))


def _base_ms(policy: RetryPolicy, attempt: int) -> int:
    if policy.backoff == "fixed":
        return policy.initial_delay_ms
    if policy.backoff == "linear":
        return policy.initial_delay_ms * attempt
    return policy.initial_delay_ms << min(attempt - 1, _MAX_EXPONENT)
