"""Receiver: from the headers and bytes of a request to the answer; adapters of frameworks only carry both."""

from collections.abc import Callable, Iterable
from typing import Any, Generic

from task_executor_receiver.answer import Answer, problem
from task_executor_receiver.delivery import Delivery
from task_executor_receiver.inbox import TransactionalInbox, Tx
from task_executor_receiver.signature import VerificationError, Verifier

MAX_BODY_BYTES = 4 * 1024 * 1024


class Receiver(Generic[Tx]):
    """Verifies a request, lets its execution have its effect once by way of an inbox, and answers.

    401 for what is not to be believed, 413 for a body of more than `max_body_bytes`, 200 for what has had its effect,
    now or earlier, 409 with Retry-After while another attempt is at work or a newer one has been here.
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
        """Answer a request; `headers` are all of them as pairs, `body` the bytes as they came.

        Raises what the handler or the store raises: answer 500 then, and the service tries again.
        """
        if len(body) > self.max_body_bytes:
            return self.too_long()
        try:
            delivery = self._verifier.verify(headers, body)
        except VerificationError as error:
            return problem(401, error.reason, str(error))
        return self._inbox.process(delivery, self._handler)

    def too_long(self, most: int | None = None) -> Answer:
        """Refuse a body that an adapter has not read to its end; `most` is a framework's own bound, in bytes."""
        return problem(413, "body", f"the body has more than {most or self.max_body_bytes} bytes")
