"""Testing: headers of a signed delivery, for tests of a handler without the service."""

import time

from task_executor_receiver.signature import attempt_signature_of, key_of, signature_of


def signed_headers(
    secret: str, body: bytes, *, execution_id: str = "exec_1", attempt: int = 1, sent_at: int | None = None
) -> dict[str, str]:
    """Return the headers with which the service would deliver a body.

    Args:
        secret: Secret of the endpoint's `signing`, one that the `Verifier` of the test accepts.
        body: Raw bytes of the request's body.
        execution_id: Id of the execution; the same id for each attempt.
        attempt: Number of the attempt, from 1.
        sent_at: Unix time in seconds; None for the local clock.

    Returns:
        The five headers that a `Verifier` requires, for `Receiver.receive` or the test client of a framework.

    Raises:
        ValueError: The secret is empty, or not base64 after `whsec_`.

    Example:
        body = b'{"order_id": 7}'
        answer = receiver.receive(signed_headers("whsec_…", body).items(), body)
    """
    key, at = key_of(secret), int(time.time()) if sent_at is None else sent_at
    signature = signature_of(key, execution_id, str(at), body)
    return {
        "webhook-id": execution_id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature.decode(),
        "X-Task-Executor-Attempt": str(attempt),
        "X-Task-Executor-Attempt-Signature": attempt_signature_of(key, str(attempt), signature).decode(),
    }
