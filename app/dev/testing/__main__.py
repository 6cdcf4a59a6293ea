"""`python -m app.dev.testing FOLDER`: run the stack for tests, with its logs in a folder, until the input ends.

Each line of the standard input is a request in JSON, and each line of the output its answer. The first line of the
output says where the API is. `task_executor_client.testing` is the other side.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from app.dev.process.child import ChildError
from app.dev.testing.clock_mover import UnfinishedError
from app.dev.testing.movable_stack import MovableStack, running


def main() -> int:
    # A program that writes to the standard output must not disturb the answers.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1) as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        with running(Path(sys.argv[1])) as stack:
            answers.write(json.dumps({"result": stack.access()}) + "\n")
            for line in sys.stdin:
                answers.write(json.dumps(_answer(stack, json.loads(line))) + "\n")
    return 0


def _answer(stack: MovableStack, request: dict[str, Any]) -> dict[str, Any]:
    """Run a request; errors that the test can explain become messages."""
    try:
        match request["do"]:
            case "advance":
                return {"result": stack.advance(request["milliseconds"], request["seconds"])}
            case "clear":
                return {"result": stack.clear()}
            case "now":
                return {"result": stack.now()}
            case unknown:
                return {"error": f"this version of the service has no request {unknown!r}"}
    except (ChildError, UnfinishedError) as error:
        return {"error": str(error)}


if __name__ == "__main__":
    sys.exit(main())
