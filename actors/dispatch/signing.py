"""Signatures of requests, by which a receiver verifies their origin and time.

Standard Webhooks 1.0.0 (https://www.standardwebhooks.com), symmetric signatures: `v1,` and the base64 of the
HMAC-SHA256 of `{id}.{timestamp}.{body}`. While a secret is rotated there are two, separated by a space, and a receiver
accepts either.

That says nothing of the attempt, by which a receiver tells what comes late. So a header of ours has, in the same order
and form, the HMAC of `attempt:{number}:{signature}` of each: it holds for this number with this id, time and body only.
What it signs has no dot, and what Standard Webhooks signs always has: neither passes for the other.
"""

import base64
import hmac
from collections.abc import Mapping

from app.queue.executions.execution_model import DeliveryError

_PREFIX = "whsec_"


def signed(signing: Mapping[str, str], message_id: str, timestamp: int, body: bytes, attempt: int) -> dict[str, str]:
    """Return the headers of a signed request; `timestamp` is a Unix time in seconds.

    Raises a permanent DeliveryError for a secret that begins with `whsec_` and does not continue with base64.
    """
    keys = [_key(signing[name]) for name in ("secret", "previous_secret") if name in signing]
    content = f"{message_id}.{timestamp}.".encode() + body
    signatures = [_signature(key, content) for key in keys]
    of_attempt = [
        _signature(key, f"attempt:{attempt}:{one}".encode()) for key, one in zip(keys, signatures, strict=True)
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
        "X-Task-Executor-Attempt-Signature": " ".join(of_attempt),
    }


def _signature(key: bytes, content: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()


def _key(secret: str) -> bytes:
    """Return the bytes of a secret: decoded after the prefix, or its own."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:  # binascii.Error is one, and letters beyond ASCII are another
        raise DeliveryError(
            "TEMPLATE_RESOLUTION_FAILED", "the signing secret is not base64 after whsec_", permanent=True
        ) from None
