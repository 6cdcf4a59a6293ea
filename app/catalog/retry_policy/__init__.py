"""Retry policies: their fields, and the wait before the next attempt.

The arithmetic is pure: randomness is an argument.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any, Literal, get_args

from marshmallow import ValidationError, fields, validate, validates_schema

from app.catalog.retry_policy.matchers import InAnswer, Matcher, matchers_field, read_list, shown_list
from app.catalog.specs.spec_fields import whole
from app.kernel.described_fields import described
from app.kernel.suggestions import StrictSchema
from app.kernel.unreadable import report
from schema.inline_bounds import MAX_AGE_MS, MAX_ATTEMPTS, MAX_RETRY_DELAYS
from schema.inline_bounds import MAX_RETRY_DELAY_MS as MAX_DELAY_MS

Backoff = Literal["fixed", "linear", "exponential", "custom", "decorrelated"]
BACKOFFS: tuple[str, ...] = get_args(Backoff)

_LISTS = ("delays_ms", "fail_on", "reject_on", "ignore_on", "retry_on")
_OPTIONAL = frozenset({*_LISTS, "max_age_ms"})

MAX_RETRY_AFTER_MS = MAX_DELAY_MS
INITIAL_DELAY_MS = 1000
_MAX_EXPONENT = 62  # 2**62 ms is far above any cap; doubling further would only cost time
_MAX_CHAIN = 100  # draws of a decorrelated chain; earlier draws have no influence


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """An endpoint's `retry_policy`, with its defaults."""

    max_attempts: int = 1
    backoff: Backoff = "exponential"
    initial_delay_ms: int = INITIAL_DELAY_MS
    max_delay_ms: int = 60_000
    delays_ms: tuple[int, ...] = ()  # for "custom", which ignores the two delays above
    # The first list with a matching entry decides.
    fail_on: tuple[Matcher, ...] = ()  # final
    reject_on: tuple[Matcher, ...] = ()  # final, and needs no attention
    ignore_on: tuple[Matcher, ...] = ()  # a success
    retry_on: tuple[Matcher, ...] = ()  # the only errors that are retried, unless empty
    max_age_ms: int | None = None  # since scheduled_at; no retry starts later
    reads_answers: bool = field(init=False, repr=False, compare=False)
    """Whether a list matches JSON of answers, so that a successful answer can be refused."""

    def __post_init__(self) -> None:
        """Compute `reads_answers` once instead of at each delivery."""
        refusing = (*self.fail_on, *self.reject_on, *self.retry_on)
        object.__setattr__(self, "reads_answers", any(isinstance(matcher, InAnswer) for matcher in refusing))

    @property
    def longest_wait_ms(self) -> int:
        """Longest wait before another attempt, unless the receiver asks for more."""
        if self.max_attempts == 1:
            return 0
        return max(self.delays_ms) if self.backoff == "custom" else self.max_delay_ms

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> "RetryPolicy":
        """Read a stored policy; absent fields take the defaults, and no default exceeds a given cap.

        A `max_age_ms` that was edited manually to an invalid value has no effect.
        """
        known: dict[str, Any] = {name: item for name, item in (value or {}).items() if name in _STORED}
        for name in known.keys() & set(_LISTS):
            known[name] = read_list(known[name])
        if "max_delay_ms" in known:
            known.setdefault("initial_delay_ms", min(INITIAL_DELAY_MS, known["max_delay_ms"]))
        age = known.get("max_age_ms")
        if not isinstance(age, int) or not 1 <= age <= MAX_AGE_MS:
            known["max_age_ms"] = None
        return cls(**known)

    @classmethod
    def in_effect(cls, value: Mapping[str, Any] | None, endpoint: str) -> "RetryPolicy":
        """Read the stored policy of an endpoint; the defaults for a policy that cannot be read."""
        try:
            policy = cls.from_json(value)
            _ = policy.max_attempts + 1  # raises unless it is a number
        except Exception as error:  # noqa: BLE001 - a row may hold anything
            report(f"retry policy of endpoint {endpoint}", error)
            return cls()
        return policy

    def as_json(self) -> dict[str, Any]:
        """Return the policy with its defaults; lists and `max_age_ms` only where they are set."""
        shown = {name: getattr(self, name) for name in _STORED}
        shown |= {name: shown_list(shown[name]) for name in _LISTS}
        return {name: value for name, value in shown.items() if value or name not in _OPTIONAL}


def delay_ms(
    policy: RetryPolicy, attempt: int, spread: float, retry_after_ms: int | None = None, *, seed: str = ""
) -> int:
    """Compute the wait after failed attempt number `attempt` (1 is the first), in milliseconds.

    The cap is applied before the jitter, so that the wait still varies once the cap is reached, and the jitter at
    the cap only shortens it. `spread` is uniform in [-1, 1]; "decorrelated" draws its waits from a generator that
    starts from `seed`, so that no state is kept between attempts. The receiver's Retry-After can only lengthen the
    wait, up to 24 hours.
    """
    if policy.backoff == "decorrelated":
        own = _decorrelated_ms(policy, attempt, seed)
    else:
        cap = MAX_DELAY_MS if policy.backoff == "custom" else policy.max_delay_ms
        base = min(_base_ms(policy, attempt), cap)
        low, high = base - base // 4, min(base + base // 4, cap)
        own = round(low + (high - low) * (spread + 1) / 2)
    return max(own, min(retry_after_ms or 0, MAX_RETRY_AFTER_MS))


def _base_ms(policy: RetryPolicy, attempt: int) -> int:
    if policy.backoff == "custom":
        return policy.delays_ms[min(attempt, len(policy.delays_ms)) - 1]
    if policy.backoff == "fixed":
        return policy.initial_delay_ms
    if policy.backoff == "linear":
        return policy.initial_delay_ms * attempt
    return policy.initial_delay_ms << min(attempt - 1, _MAX_EXPONENT)


def _decorrelated_ms(policy: RetryPolicy, attempt: int, seed: str) -> int:
    """AWS, "Exponential Backoff And Jitter": sleep = min(cap, uniform(base, sleep * 3)), from base on."""
    delay = float(policy.initial_delay_ms)
    for number in range(max(1, attempt - _MAX_CHAIN + 1), attempt + 1):
        draw = random.Random(f"{seed}:{number}").uniform(policy.initial_delay_ms, delay * 3)
        delay = min(policy.max_delay_ms, draw)
    return round(delay)


_DEFAULT = RetryPolicy()
_STORED = tuple(each.name for each in dataclass_fields(RetryPolicy) if each.init)


class RetryPolicySpec(StrictSchema):
    """`retry_policy` of any endpoint; no wait is longer than 24 hours."""

    max_attempts = whole(1, MAX_ATTEMPTS, load_default=_DEFAULT.max_attempts)
    backoff = fields.String(validate=validate.OneOf(BACKOFFS), load_default=_DEFAULT.backoff)
    initial_delay_ms = whole(0, MAX_DELAY_MS, load_default=_DEFAULT.initial_delay_ms)
    max_delay_ms = whole(0, MAX_DELAY_MS, load_default=_DEFAULT.max_delay_ms)
    delays_ms = fields.List(
        whole(0, MAX_DELAY_MS),
        validate=validate.Length(1, MAX_RETRY_DELAYS),
        **described("waits between attempts, for `custom` only and required there; the last repeats"),
    )
    fail_on = matchers_field("errors and answers that are final; checked first")
    reject_on = matchers_field("final too, and marked `rejected`: needs no attention")
    ignore_on = matchers_field("errors that count as a success; the error is kept")
    retry_on = matchers_field("errors and answers that are retried; if given, no others are, not even a lost worker")
    max_age_ms = whole(
        1,
        MAX_AGE_MS,
        allow_none=True,
        **described("milliseconds since `scheduled_at`; a retry that would start later is not made"),
    )

    @validates_schema(pass_original=True)
    def _together(self, data: Mapping[str, Any], given: Mapping[str, Any], **_options: Any) -> None:
        policy = RetryPolicy.from_json(given)
        if (policy.backoff == "custom") != ("delays_ms" in data):
            needed = 'Required with backoff "custom".' if "delays_ms" not in data else 'Only with backoff "custom".'
            raise ValidationError(needed, "delays_ms")
        # "custom" takes its waits from a list; these two have no effect, but answers show them.
        if policy.backoff != "custom" and policy.initial_delay_ms > policy.max_delay_ms:
            raise ValidationError(
                f"Must be at most max_delay_ms ({policy.max_delay_ms}), not {policy.initial_delay_ms}.",
                "initial_delay_ms",
            )


RETRY_POLICY = RetryPolicySpec()
