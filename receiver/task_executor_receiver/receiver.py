"""Receiver: turns the headers and bytes of a request into an answer. Framework adapters wrap it."""

from collections.abc import Callable, Iterable
from typing import Any, Generic

from task_executor_receiver.answer import Answer, problem
from task_executor_receiver.delivery import Delivery
from task_executor_receiver.inbox import TransactionalInbox, Tx
from task_executor_receiver.signature import VerificationError, Verifier

MAX_BODY_BYTES = 4 * 1024 * 1024


class Receiver(Generic[Tx]):
    """Receiver of deliveries: verifies requests and applies each execution once through an inbox.

    Answers: 200 for an effect applied now or earlier; 401 for a failed verification; 409 with Retry-After while another
    attempt is running or after a newer attempt; 413 for a body above `max_body_bytes`.

    Args:
        verifier: Verifier with the endpoint's secrets.
        inbox: Inbox in the database of the handler's effects.
        handler: Function of the delivery and the inbox's transaction; its JSON result is the body of the answer.
        max_body_bytes: Largest accepted body.

    Example:
        receiver = Receiver(Verifier(["whsec_…"]), SqlAlchemyInbox(engine), handler)
        answer = receiver.receive(request.headers.items(), body)
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

    def receive(self, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
        """Process a request.

        Args:
            headers: All headers as pairs, repeated headers included.
            body: Raw bytes of the body.

        Returns:
            The answer to send.

        Raises:
            Exception: Errors of the handler or the store. Answer 500, so that the service retries.
        """
        if len(body) > self.max_body_bytes:
            return self.too_long()
        try:
            delivery = self._verifier.verify(headers, body)
        except VerificationError as error:
            return problem(401, error.reason, str(error))
        return self._inbox.process(delivery, self._handler)

    def too_long(self, limit: int | None = None) -> Answer:
        """Return 413 for a body that an adapter did not read completely; `limit` is the framework's bound in bytes."""
        return problem(413, "body", f"the body has more than {limit or self.max_body_bytes} bytes")
