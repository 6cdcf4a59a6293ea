"""Receiver: turns the headers and bytes of a request into an answer. Framework adapters wrap it."""

from collections.abc import Callable
from typing import Any, Generic

from task_executor_receiver.answer import Answer, problem
from task_executor_receiver.delivery import Delivery
from task_executor_receiver.inbox import TransactionalInbox, Tx
from task_executor_receiver.signature import Headers, VerificationError, Verifier

MAX_BODY_BYTES = 4 * 1024 * 1024


class Receiver(Generic[Tx]):
    """Receiver of deliveries: verifies requests and applies each execution once through an inbox.

    Answers: 200 for an effect applied now or earlier; 401 for a failed verification; 409 with Retry-After while another
    attempt is running or after a newer attempt; 413 for a body above `max_body_bytes`; the answer of a `Refused`.

    Threads may share a receiver; the handler runs on the calling thread, so concurrent deliveries run it concurrently.

    Args:
        verifier: Verifier with the endpoint's secrets.
        inbox: Inbox in the database of the handler's effects.
        handler: Function of the delivery and the inbox's transaction. It must neither commit nor roll back. Its result
            of at most 16,384 bytes of JSON is the body of the answer.
        max_body_bytes: Largest accepted body in bytes.

    Attributes:
        max_body_bytes: Largest accepted body in bytes, for adapters.

    Example:
        receiver = Receiver(Verifier(["whsec_…"]), SqlAlchemyInbox(engine), handler)
        answer = receiver.receive(request.headers, body)
    """

    def __init__(
        self,
        verifier: Verifier,
        inbox: TransactionalInbox[Tx],
        handler: Callable[[Delivery, Tx], Any],
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._verifier = verifier
        self._inbox = inbox
        self._handler = handler
        self.max_body_bytes = max_body_bytes

    def receive(self, headers: Headers, body: bytes) -> Answer:
        """Verify a request, run the handler once for its execution, and return the answer. Blocks until then.

        Args:
            headers: All headers, as pairs or with `items()`, repeated headers included.
            body: Raw bytes of the body, before any parsing.

        Returns:
            The answer to send; a failed verification is an answer, too.

        Raises:
            ValueError: The handler's result is not JSON or too large; the effect is rolled back.
            Exception: Other errors of the handler or the store, after a rollback. Answer 500, so that the service
                retries.

        Example:
            answer = receiver.receive(request.headers, request.get_data())
        """
        if len(body) > self.max_body_bytes:
            return self.too_long()
        try:
            delivery = self._verifier.verify(headers, body)
        except VerificationError as error:
            return problem(401, error.reason, str(error))
        return self._inbox.process(delivery, self._handler)

    def too_long(self, limit: int | None = None) -> Answer:
        """Return 413 for a body that an adapter did not read completely.

        Args:
            limit: Bound of the framework in bytes; None for `max_body_bytes`.
        """
        return problem(413, "body", f"the body has more than {limit or self.max_body_bytes} bytes")
