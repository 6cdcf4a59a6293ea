"""Example: a receiver with FastAPI and SQLAlchemy (`pip install './receiver[fastapi,sqlalchemy]' uvicorn`):

    TE_WEBHOOK_SECRET=whsec_… python receiver/examples/fastapi_app.py

POST /deliveries receives deliveries, GET /shipments lists their effects. Environment: DATABASE_URL, PORT.
"""

import os

import uvicorn
from fastapi import FastAPI
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert, select
from sqlalchemy.orm import Session
from task_executor_receiver import Delivery, Receiver, Refused, Verifier
from task_executor_receiver.fastapi import route
from task_executor_receiver.sqlalchemy import SqlAlchemyInbox

metadata = MetaData()
SHIPMENTS = Table("shipments", metadata, Column("number", Integer, primary_key=True), Column("order_id", String(64)))


def ship(delivery: Delivery, session: Session) -> dict[str, str]:
    """Ship an order in the transaction that marks the execution as done. Runs in a thread."""
    order = delivery.json()
    if "order_id" not in order:
        raise Refused("the order has no order_id")  # 410: retrying cannot help
    session.execute(insert(SHIPMENTS).values(order_id=order["order_id"]))
    return {"shipped": order["order_id"]}


engine = create_engine(os.environ.get("DATABASE_URL", "sqlite:///shipments.db"))
metadata.create_all(engine)
inbox = SqlAlchemyInbox(engine)
inbox.create_table()

app = FastAPI()
# During a rotation the variable holds the new secret, a space and the old secret.
receiver = Receiver(Verifier(os.environ["TE_WEBHOOK_SECRET"].split()), inbox, ship)
app.post("/deliveries")(route(receiver))


@app.get("/shipments")
def shipments() -> list[str]:
    """List the shipped orders."""
    with Session(engine) as session:
        return list(session.scalars(select(SHIPMENTS.c.order_id)))


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
