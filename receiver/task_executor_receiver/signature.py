"""Signatures: whether a request comes from your Task Executor, now, and as which attempt.

Standard Webhooks 1.0.0 with the symmetric scheme `v1`, and a header that signs the number of the attempt:
`X-Task-Executor-Attempt-Signature` holds for each signature the HMAC of `attempt:{number}:{signature}`.
"""

import base64
import hmac
import re
import time
from collections.abc import Iterable, Sequence

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


class VerificationError(Exception):
    """A request is not to be believed; `reason` says why in one word, for a log or an answer."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Verifier:
    """Verifies requests by the secrets that an endpoint's `signing` may use.

    Give it the newest secret and, while it is rotated, the one before: any of them will do. A secret that begins with
    `whsec_` goes on in base64. `tolerance_seconds` is how far the sender's clock may be from this one, before or after:
    what is older may be a recording.

    Raises ValueError for a secret that is empty or not base64 after `whsec_`, and for no secret at all.
    """

    def __init__(self, secrets: Sequence[str] | str, tolerance_seconds: int = TOLERANCE_SECONDS) -> None:
        self._keys = [_key(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
        if not self._keys:
            raise ValueError("a secret is needed")
        if tolerance_seconds < 1:
            raise ValueError(f"tolerance_seconds is {tolerance_seconds}: at least 1 is needed")
        self._tolerance = tolerance_seconds

    def verify(self, headers: Iterable[tuple[str, str]], body: bytes, now: float | None = None) -> Delivery:
        """Return what a request says; raises VerificationError when it is not to be believed.

        `headers` are all of them, as pairs: one that comes twice is refused. `body` is the bytes as they came, before
        anything has parsed them. `now` is a Unix time in seconds, this machine's if it is not given.
        """
        found = _ours(headers)
        delivery = Delivery(found[_ID], int(found[_ATTEMPT]), int(found[_TIMESTAMP]), body)
        if not self._is_signed(found, body):
            raise VerificationError("signature", "no signature fits the request")
        age = (time.time() if now is None else now) - delivery.sent_at
        if abs(age) > self._tolerance:
            raise VerificationError(
                "timestamp", f"the request was sent {age:.0f} s ago by this clock: {self._tolerance} s are tolerated"
            )
        return delivery

    def _is_signed(self, found: dict[str, str], body: bytes) -> bool:
        """Return whether one key has made both signatures; how long that takes does not tell how nearly it has."""
        content = f"{found[_ID]}.{found[_TIMESTAMP]}.".encode() + body
        is_signed = False
        for key in self._keys:
            signature = _sign(key, content)
            of_attempt = _sign(key, b"attempt:" + found[_ATTEMPT].encode() + b":" + signature)
            is_first = _is_among(signature, found[_SIGNATURE])
            is_second = _is_among(of_attempt, found[_ATTEMPT_SIGNATURE])
            is_signed |= is_first and is_second
        return is_signed


def _ours(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return what the signature needs, by names in lower case."""
    found: dict[str, str] = {}
    for given, value in headers:
        name = given.lower()
        if name not in _FORMS:
            continue
        if name in found:
            raise VerificationError("duplicate_header", f"the header {name} came twice")
        if not _FORMS[name].fullmatch(value):
            raise VerificationError("malformed_header", f"the header {name} is malformed")
        found[name] = value
    for name in _FORMS:
        if name not in found:
            raise VerificationError("missing_header", f"the header {name} is missing")
    return found


def _sign(key: bytes, content: bytes) -> bytes:
    return b"v1," + base64.b64encode(hmac.digest(key, content, "sha256"))


def _is_among(signature: bytes, given: str) -> bool:
    # Each is compared, also after one that fits.
    return sum([hmac.compare_digest(signature, one.encode()) for one in given.split(" ")]) > 0


def _key(secret: str) -> bytes:
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
