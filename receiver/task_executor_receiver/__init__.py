"""Receiver library of Task Executor: verify deliveries and apply the effect of each execution exactly once.

A Receiver combines a Verifier, an inbox and your handler. Inboxes: `sqlalchemy.SqlAlchemyInbox`,
`django.inbox.DjangoInbox`, `redis.RedisInbox`. Adapters: `flask.view`, `fastapi.route`, `django.views.view`.
`testing.signed_headers` signs requests in tests.

Example:
    from task_executor_receiver import Delivery, Receiver, Verifier
    from task_executor_receiver.sqlalchemy import SqlAlchemyInbox


    def handler(delivery: Delivery, session):
        order = delivery.json()
        session.add(Shipment(order_id=order["order_id"]))
        return {"shipped": order["order_id"]}


    receiver = Receiver(Verifier(["whsec_…"]), SqlAlchemyInbox(engine), handler)
    answer = receiver.receive(request.headers, body)  # .status, .all_headers, .body
"""

from task_executor_receiver.answer import Answer, Refused
from task_executor_receiver.delivery import Delivery
from task_executor_receiver.inbox import TransactionalInbox
from task_executor_receiver.receiver import Receiver
from task_executor_receiver.signature import VerificationError, Verifier

__all__ = ["Answer", "Delivery", "Receiver", "Refused", "TransactionalInbox", "VerificationError", "Verifier"]
