"""Signatures of requests, by which a receiver verifies their origin and time.

Standard Webhooks 1.0.0 (https://www.standardwebhooks.com), symmetric signatures: `v1,` and the base64 of the
HMAC-SHA256 of `{id}.{timestamp}.{body}`. While a secret is rotated there are two, separated by a space, and a receiver
accepts either.
"""

import base64
import hmac
from collections.abc import Mapping

from app.executions.model import DeliveryError

_PREFIX = "whsec_"


def signed(signing: Mapping[str, str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a signed request; `timestamp` is a Unix time in seconds.

    Raises a permanent DeliveryError for a secret that begins with `whsec_` and does not continue with base64.
    """
    secrets = [signing[name] for name in ("secret", "previous_secret") if name in signing]
    content = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_signature(_key(secret), content) for secret in secrets),
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
