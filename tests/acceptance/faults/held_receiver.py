"""A receiver as a process, which stops where the body of a delivery says so, until a row lets it go on.

    python -m tests.acceptance.faults.held_receiver PORT DATABASE_URL SECRET

`{"holds": ["door/1"], "refuses": [2]}` holds attempt 1 at the door and refuses attempt 2. The places are: the door,
before anything is read; the effect, which is had and not yet committed; the answer, which is not yet sent.
"""

import sys
from functools import partial
from typing import Any

from flask import Flask, Response, request
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from task_executor_receiver import Delivery, Receiver, Refused, Verifier
from task_executor_receiver.flask import view
from task_executor_receiver.sqlalchemy import SqlAlchemyInbox

from tests.waiting import eventually

TABLES = (
    "CREATE TABLE IF NOT EXISTS effects (execution_id TEXT NOT NULL, attempt INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS places (execution_id TEXT NOT NULL, place TEXT NOT NULL, status INTEGER)",
    "CREATE TABLE IF NOT EXISTS opened (execution_id TEXT NOT NULL, place TEXT NOT NULL)",
)
EFFECT = text("INSERT INTO effects (execution_id, attempt) VALUES (:execution, :attempt)")
REACH = text("INSERT INTO places (execution_id, place, status) VALUES (:execution, :place, :status)")
OPENED = text("SELECT 1 FROM opened WHERE execution_id = :execution AND place = :place")


def main(port: int, database_url: str, secret: str) -> None:
    engine = create_engine(database_url, pool_size=20)
    inbox = SqlAlchemyInbox(engine, retry_after=1)
    inbox.create_table()
    with engine.begin() as connection:
        for table in TABLES:
            connection.execute(text(table))

    def reach(order: dict[str, Any], execution: str, place: str, status: int | None = None) -> None:
        at = {"execution": execution, "place": place}
        with engine.begin() as connection:
            connection.execute(REACH, {**at, "status": status})
        if place in order["holds"]:
            eventually(partial(is_open, at), what=f"the opening of {place}")

    def is_open(at: dict[str, str]) -> bool:
        with engine.connect() as connection:
            return connection.execute(OPENED, at).first() is not None

    def handle(delivery: Delivery, session: Session) -> dict[str, int]:
        session.execute(EFFECT, {"execution": delivery.execution_id, "attempt": delivery.attempt})
        reach(delivery.json(), delivery.execution_id, f"effect/{delivery.attempt}")
        if delivery.attempt in delivery.json().get("refuses", ()):
            raise Refused("not now", 503)
        return {"by": delivery.attempt}

    receive = view(Receiver(Verifier(secret), inbox, handle))
    app = Flask("held")

    @app.post("/deliveries")
    def deliver() -> Response:
        execution, attempt = request.headers["webhook-id"], request.headers["X-Task-Executor-Attempt"]
        order = request.get_json()
        reach(order, execution, f"door/{attempt}")
        answer = receive()
        reach(order, execution, f"answer/{attempt}", answer.status_code)
        return answer

    app.run("127.0.0.1", port, threaded=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
