"""Example: a receiver with Flask and SQLAlchemy (`pip install './receiver[flask,sqlalchemy]'`):

    TE_WEBHOOK_SECRET=whsec_… python receiver/examples/flask_app.py

POST /deliveries receives deliveries, GET /shipments lists their effects. Environment: DATABASE_URL, PORT.
"""

import os

from flask import Flask, Response, jsonify
from sqlalchemy import String, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from task_executor_receiver import Delivery, Receiver, Refused, Verifier
from task_executor_receiver.flask import view
from task_executor_receiver.sqlalchemy import SqlAlchemyInbox


class Base(DeclarativeBase):
    """Declarative base of the example's tables."""


class Shipment(Base):
    """Shipped order; at most one row per execution."""

    __tablename__ = "shipments"

    number: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str] = mapped_column(String(64))


def ship(delivery: Delivery, session: Session) -> dict[str, str]:
    """Ship an order in the transaction that marks the execution as done."""
    order = delivery.json()
    if "order_id" not in order:
        raise Refused("the order has no order_id")  # 410: retrying cannot help
    session.add(Shipment(order_id=order["order_id"]))
    return {"shipped": order["order_id"]}


engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///shipments.db"))
Base.metadata.create_all(engine)
inbox = SqlAlchemyInbox(engine)
inbox.create_table()

app = Flask(__name__)
# During a rotation the variable holds the new secret, a space and the old secret.
receiver = Receiver(Verifier(os.environ["TE_WEBHOOK_SECRET"].split()), inbox, ship)
app.add_url_rule("/deliveries", view_func=view(receiver), methods=["POST"])


@app.get("/shipments")
def shipments() -> Response:
    """List the shipped orders."""
    with Session(engine) as session:
        return jsonify([shipment.order_id for shipment in session.scalars(select(Shipment))])


if __name__ == "__main__":
    app.run("127.0.0.1", int(os.environ.get("PORT", "8000")), threaded=True)
