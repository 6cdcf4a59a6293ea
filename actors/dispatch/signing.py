"""Signatures of requests, by which a receiver verifies their origin and time.

Standard Webhooks 1.0.0 (https://www.standardwebhooks.com), symmetric signatures: `v1,` and the base64 of the
HMAC-SHA256 of `{id}.{timestamp}.{body}`. During the rotation of a secret there are two, separated by a space, and a
receiver accepts either.

That signature does not cover the attempt number, by which a receiver detects late messages. A header of our own
contains, in the same order and form, the HMAC of `attempt:{number}:{signature}`. It is valid for one number with one
id, time and body only. Its input has no dot and that of Standard Webhooks has one, so neither passes for the other.
"""

import base64
import hmac
from collections.abc import Mapping

from app.queue.executions.execution_model import DeliveryError

_PREFIX = "whsec_"


def signed(signing: Mapping[str, str], message_id: str, timestamp: int, body: bytes, attempt: int) -> dict[str, str]:
    """Return the headers of a signed request; `timestamp` is a Unix time in seconds.

    Raises a permanent DeliveryError for a secret with invalid base64 after `whsec_`.
    """
    keys = [_key(signing[name]) for name in ("secret", "previous_secret") if name in signing]
    content = f"{message_id}.{timestamp}.".encode() + body
    signatures = [_signature(key, content) for key in keys]
    pairs = zip(keys, signatures, strict=True)
    attempt_signatures = [_signature(key, f"attempt:{attempt}:{text}".encode()) for key, text in pairs]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
        "X-Task-Executor-Attempt-Signature": " ".join(attempt_signatures),
    }


def _signature(key: bytes, content: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()


def _key(secret: str) -> bytes:
    """Return the bytes of a secret, decoded if it has the prefix."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:  # includes binascii.Error; non-ASCII letters raise ValueError itself
        raise DeliveryError(
            "TEMPLATE_RESOLUTION_FAILED", "the signing secret is not base64 after whsec_", permanent=True
        ) from None
