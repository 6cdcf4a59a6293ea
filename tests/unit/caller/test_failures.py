"""Messages of the client's errors."""

from task_executor_client import ApiError

MESSAGE = "The request is not valid. /a: Required."


def test_message_names_each_fault_once() -> None:
    first = {"pointer": "/a", "message": "Required."}
    second = {"pointer": "/b", "message": "Unknown field."}
    error = ApiError("jobs.create", 400, "INVALID_REQUEST", MESSAGE, details=[first, second])
    assert str(error) == f"jobs.create: 400 INVALID_REQUEST: {MESSAGE}; /b: Unknown field. (request None)"


def test_fault_is_told_beside_one_whose_pointer_ends_like_it() -> None:
    inner, outer = ({"pointer": pointer, "message": "Required."} for pointer in ("/input/a", "/a"))
    message = "The request is not valid. /input/a: Required."
    error = ApiError("jobs.create", 400, "INVALID_REQUEST", message, details=[inner, outer])
    assert str(error) == f"jobs.create: 400 INVALID_REQUEST: {message}; /a: Required. (request None)"
