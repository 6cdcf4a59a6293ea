"""Stack of tests: the service in processes of its own, and the connection to the program that runs them."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from .calls import Calls
from .receiver import Deliveries

PYTHON_VARIABLE = "TASK_EXECUTOR_PYTHON"
_MODULE = "app.dev.testing"
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_SPARE_SECONDS = 10.0  # for an answer beyond the limit of its work
_MAX_SHOWN = 3000  # characters of the output of a program that ends


class StackError(RuntimeError):
    """The stack does not start, has ended, or did not end its work in time."""


class Stack:
    """Running service for tests, reached over the pipes of its program; a context manager, for one thread.

    The environment variable `TASK_EXECUTOR_PYTHON` names the Python of the environment with the service; the default is
    the Python of the tests. The service gets no variable whose name begins with `TE_`.

    Attributes:
        url: URL of the API.
        key: API key with all scopes.
        database_url: URL of the database, such as for `te_enqueue`.
        logs: Folder with the logs of the processes, until the end of the session.
        deliveries: Deliveries of the current test; see the fixture `deliveries`.

    Raises:
        StackError: The stack does not start; the message has the output.
    """

    def __init__(self) -> None:
        self._calls = Calls()
        self._answers: SimpleQueue[str] = SimpleQueue()
        self._folder = tempfile.TemporaryDirectory(prefix="te-testing-", ignore_cleanup_errors=True)
        self.logs = Path(self._folder.name)
        self._output = self.logs / "testing.log"
        self.deliveries = Deliveries(self._calls)
        try:
            self._program = self._start()
        except StackError:
            self._discard()
            raise
        if self._program.stdin is None or self._program.stdout is None:
            raise AssertionError("both are pipes")
        self._requests, self._replies = self._program.stdin, self._program.stdout
        threading.Thread(target=self._read, name="te-testing", daemon=True).start()
        try:
            access = self._result(_START_SECONDS)
        except BaseException:
            self.close()
            raise
        self.url: str = access["url"]
        self.key: str = access["key"]
        self.database_url: str = access["database_url"]

    @property
    def receiver_url(self) -> str:
        """URL of the receiver whose requests are `deliveries`, without a slash at its end."""
        return self.deliveries.url("")

    def __enter__(self) -> Self:
        """Return the stack."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the stack."""
        self.close()

    def ask(self, do: str, *, limit: float = 0.0, **arguments: object) -> Any:
        """Let the program run a request. Handlers of deliveries run in this thread until it has ended.

        Args:
            do: Name of the request.
            limit: Seconds of real time that the work may take.
            **arguments: Its arguments.

        Returns:
            The result.

        Raises:
            StackError: The request failed, or the program has ended.
            RuntimeError: A handler of a delivery called it.
            Exception: A handler raised it.
        """
        self._calls.check_free()
        with suppress(BrokenPipeError):  # the end of its output says why
            self._requests.write(json.dumps({"do": do, **arguments}) + "\n")
            self._requests.flush()
        try:
            return self._result(limit + _SPARE_SECONDS)
        finally:
            self.deliveries.raise_error()

    def clear(self) -> None:
        """End a test: forget its deliveries, delete its jobs and return to the machine's time.

        A worker may still send a delivery that it had claimed before. The receiver answers it, and counts it nowhere.

        Raises:
            StackError: The program has ended.
        """
        self.deliveries.clear()  # frees the worker from handlers that no longer run
        self.deliveries.clear(self.ask("clear"))

    def close(self) -> None:
        """Stop the program, all processes of the stack and the receiver."""
        with suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._program.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
        self._discard()

    def _discard(self) -> None:
        self.deliveries.close()
        self._folder.cleanup()

    def _start(self) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TE_")}
        python = os.environ.get(PYTHON_VARIABLE) or sys.executable
        if os.sep in python:
            python = str(Path(python).absolute())  # the program runs in another directory
        try:
            with self._output.open("w") as output:
                return subprocess.Popen(  # noqa: S603 - the Python of the tests, or one that the environment names
                    [python, "-P", "-m", _MODULE, str(self.logs)],  # -P: a package `app` of this directory is another
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    text=True,
                    env=environment,
                    cwd=self.logs,
                    start_new_session=True,  # Ctrl-C ends the tests, which end the program
                )
        except OSError as error:
            raise StackError(
                f"cannot run {python!r}: {error.strerror}; set {PYTHON_VARIABLE} to bin/python of the environment with "
                "task-executor[testing], or unset it if the tests run there"
            ) from error

    def _read(self) -> None:
        """Pass on the answers; an empty one is the end of the program."""
        while line := self._replies.readline():
            self._answers.put(line)
            self._calls.put(bool)  # ends a wait, and does nothing
        self._answers.put("")
        self._calls.put(bool)

    def _result(self, seconds: float) -> Any:
        """Return the result of the request that runs."""
        found = list[str]()

        def is_over() -> bool:
            with suppress(Empty):
                found.append(self._answers.get_nowait())
            return bool(found)

        if not self._calls.run_until(is_over, seconds):
            self._program.kill()  # its answer would be taken for that of the next request
            raise StackError(f"the stack for tests did not answer within {seconds:g} s")
        if not found[0]:
            output = self._output.read_text(errors="replace").strip()[-_MAX_SHOWN:]
            raise StackError(
                f"the stack for tests has ended; {_MODULE} needs task-executor[testing]. Its output: {output}"
            )
        answer = json.loads(found[0])
        if "error" in answer:
            raise StackError(answer["error"])
        return answer["result"]
