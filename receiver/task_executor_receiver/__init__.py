"""Receiver library of Task Executor: verify deliveries and apply the effect of each execution exactly once.

verifier = Verifier(["whsec_…"])
inbox = SqlAlchemyInbox(engine)                    # from task_executor_receiver.sqlalchemy
receiver = Receiver(verifier, inbox, handler)      # handler(delivery, session)
answer = receiver.receive(request.headers.items(), body)  # or an adapter: flask, fastapi, django
"""

from task_executor_receiver.answer import Answer, Refused
from task_executor_receiver.delivery import Delivery
from task_executor_receiver.inbox import TransactionalInbox
from task_executor_receiver.receiver import Receiver
from task_executor_receiver.signature import VerificationError, Verifier

__all__ = ["Answer", "Delivery", "Receiver", "Refused", "TransactionalInbox", "VerificationError", "Verifier"]
