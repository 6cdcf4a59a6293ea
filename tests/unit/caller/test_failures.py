"""Messages of the client's errors."""

from task_executor_client import ApiError

MESSAGE = "The request is not valid. /a: Required."


def test_message_names_each_fault_once() -> None:
    first = {"pointer": "/a", "message": "Required."}
    second = {"pointer": "/b", "message": "Unknown field."}
    error = ApiError("jobs.create", 400, "INVALID_REQUEST", MESSAGE, details=[first, second])
    assert str(error) == f"jobs.create: 400 INVALID_REQUEST: {MESSAGE}; /b: Unknown field. (request None)"
