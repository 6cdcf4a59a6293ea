"""A receiver process that waits at points named in the body of a delivery, until a row in `released` continues it.

    python -m tests.acceptance.faults.held_receiver PORT DATABASE_URL SECRET

`{"holds": ["arrival/1"], "refuses": [2]}` holds attempt 1 at its arrival and refuses attempt 2. The points are:
arrival, before the inbox is read; effect, before its commit; response, before the response is sent.
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
    "CREATE TABLE IF NOT EXISTS points (execution_id TEXT NOT NULL, point TEXT NOT NULL, status INTEGER)",
    "CREATE TABLE IF NOT EXISTS released (execution_id TEXT NOT NULL, point TEXT NOT NULL)",
)
EFFECT = text("INSERT INTO effects (execution_id, attempt) VALUES (:execution, :attempt)")
REACH = text("INSERT INTO points (execution_id, point, status) VALUES (:execution, :point, :status)")
RELEASED = text("SELECT 1 FROM released WHERE execution_id = :execution AND point = :point")


def main(port: int, database_url: str, secret: str) -> None:
    engine = create_engine(database_url, pool_size=20)
    inbox = SqlAlchemyInbox(engine, retry_after=1)
    inbox.create_table()
    with engine.begin() as connection:
        for table in TABLES:
            connection.execute(text(table))

    def reach(order: dict[str, Any], execution: str, point: str, status: int | None = None) -> None:
        key = {"execution": execution, "point": point}
        with engine.begin() as connection:
            connection.execute(REACH, {**key, "status": status})
        if point in order["holds"]:
            eventually(partial(is_released, key), what=f"the release of {point}")

    def is_released(key: dict[str, str]) -> bool:
        with engine.connect() as connection:
            return connection.execute(RELEASED, key).first() is not None

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
        reach(order, execution, f"arrival/{attempt}")
        response = receive()
        reach(order, execution, f"response/{attempt}", response.status_code)
        return response

    app.run("127.0.0.1", port, threaded=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
