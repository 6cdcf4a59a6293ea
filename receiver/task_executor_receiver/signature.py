"""Signatures: verification of a request's sender, age and attempt number.

Standard Webhooks 1.0.0 with the symmetric scheme `v1`, plus a header that signs the attempt number:
`X-Task-Executor-Attempt-Signature` holds the HMAC of `attempt:{number}:{signature}` for each signature.
"""

import base64
import hmac
import re
import time
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from task_executor_receiver.delivery import Delivery

TOLERANCE_SECONDS = 300

_ID, _TIMESTAMP, _SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_ATTEMPT, _ATTEMPT_SIGNATURE = "x-task-executor-attempt", "x-task-executor-attempt-signature"
_FORMS = {
    _ID: re.compile(r"[A-Za-z0-9_-]{1,64}"),
    _TIMESTAMP: re.compile(r"[0-9]{1,12}"),
    _SIGNATURE: re.compile(r"[!-~ ]{1,1024}"),
    _ATTEMPT: re.compile(r"[1-9][0-9]{0,8}"),
    _ATTEMPT_SIGNATURE: re.compile(r"[!-~ ]{1,1024}"),
}
_PREFIX = "whsec_"


@runtime_checkable
class HeaderMap(Protocol):
    """Headers of a framework or of `http.server`, repeated headers included."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Return all headers as pairs."""
        ...


Headers: TypeAlias = HeaderMap | Iterable[tuple[str, str]]


class VerificationError(Exception):
    """Failed verification of a request.

    Attributes:
        reason: `signature`, `timestamp`, `missing_header`, `duplicate_header` or `malformed_header`.

    Example:
        try:
            delivery = verifier.verify(request.headers, request.get_data())
        except VerificationError as error:
            abort(401, error.reason)
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Verifier:
    """Verifier of requests with the secrets of an endpoint's `signing`. Threads may share a verifier.

    Args:
        secrets: Accepted secrets; during a rotation the new and the old secret. The rest of a secret that begins with
            `whsec_` is base64.
        tolerance_seconds: Largest accepted difference in seconds between the sender's clock and the local clock,
            against replay of recorded requests; at least 1.

    Raises:
        ValueError: No secret, an empty secret, a secret that is not base64 after `whsec_`, or a tolerance below 1.

    Example:
        verifier = Verifier([new_secret, old_secret])
        delivery = verifier.verify(request.headers, request.get_data())
    """

    def __init__(self, secrets: Sequence[str] | str, tolerance_seconds: int = TOLERANCE_SECONDS) -> None:
        self._keys = [key_of(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
        if not self._keys:
            raise ValueError("at least one secret is required")
        if tolerance_seconds < 1:
            raise ValueError(f"tolerance_seconds is {tolerance_seconds}; it must be at least 1")
        self._tolerance = tolerance_seconds

    def verify(self, headers: Headers, body: bytes, now: float | None = None) -> Delivery:
        """Verify a request. Any thread may call it.

        Args:
            headers: All headers, as pairs or with `items()`; a repeated signature header is refused.
            body: Raw bytes of the body, before any parsing.
            now: Unix time in seconds; None for the local clock.

        Returns:
            The delivery, whose fields are all signed.

        Raises:
            VerificationError: A header is missing, repeated or malformed, no secret fits, or the request is too old.
        """
        found = _signed_headers(headers)
        delivery = Delivery(found[_ID], int(found[_ATTEMPT]), int(found[_TIMESTAMP]), body)
        if not self._is_signed(found, body):
            raise VerificationError("signature", "no signature matches the request")
        age = (time.time() if now is None else now) - delivery.sent_at
        if abs(age) > self._tolerance:
            raise VerificationError(
                "timestamp",
                f"the request was sent {age:.0f} s ago by the local clock; at most {self._tolerance} s pass",
            )
        return delivery

    def _is_signed(self, found: dict[str, str], body: bytes) -> bool:
        """Return whether one key made both signatures, in a time that does not depend on the number of equal bytes."""
        is_signed = False
        for key in self._keys:
            signature = signature_of(key, found[_ID], found[_TIMESTAMP], body)
            attempt_signature = attempt_signature_of(key, found[_ATTEMPT], signature)
            is_body_signed = _is_among(signature, found[_SIGNATURE])
            is_attempt_signed = _is_among(attempt_signature, found[_ATTEMPT_SIGNATURE])
            is_signed |= is_body_signed and is_attempt_signed
        return is_signed


def _signed_headers(headers: Headers) -> dict[str, str]:
    """Return the headers that the signature needs, with names in lower case."""
    found: dict[str, str] = {}
    for given, value in headers.items() if isinstance(headers, HeaderMap) else headers:
        name = given.lower()
        if name not in _FORMS:
            continue
        if name in found:
            raise VerificationError("duplicate_header", f"the header {name} is repeated")
        if not _FORMS[name].fullmatch(value):
            raise VerificationError("malformed_header", f"the header {name} is malformed")
        found[name] = value
    for name in _FORMS:
        if name not in found:
            raise VerificationError("missing_header", f"the header {name} is missing")
    return found


def signature_of(key: bytes, execution_id: str, timestamp: str, body: bytes) -> bytes:
    """Return the signature of Standard Webhooks, with its prefix."""
    return _sign(key, f"{execution_id}.{timestamp}.".encode() + body)


def attempt_signature_of(key: bytes, attempt: str, signature: bytes) -> bytes:
    """Return the signature of the attempt number of a signed request."""
    return _sign(key, b"attempt:" + attempt.encode() + b":" + signature)


def _sign(key: bytes, content: bytes) -> bytes:
    return b"v1," + base64.b64encode(hmac.digest(key, content, "sha256"))


def _is_among(signature: bytes, given: str) -> bool:
    # Every signature is compared, also after a match, so that the time is constant.
    return sum([hmac.compare_digest(signature, each.encode()) for each in given.split(" ")]) > 0


def key_of(secret: str) -> bytes:
    """Return the key of a secret; raises ValueError if it is empty, or not base64 after `whsec_`."""
    if not secret.startswith(_PREFIX):
        key = secret.encode()
    else:
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except ValueError:
            raise ValueError("a secret is not base64 after whsec_") from None
    if not key:
        raise ValueError("a secret is empty")
    return key
