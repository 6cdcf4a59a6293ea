"""Buffered log of a worker: lines are written in batches; warnings and shutdown write the buffer at once."""

import io
import logging
import re
import threading
from collections.abc import Iterator

import pytest

import tests.worker_environment  # noqa: F401 - first
from app.kernel import gathered_log
from app.kernel.gathered_log import MAX_KEPT, MAX_LINES, GatheredLog, log_line
from app.kernel.log import LineKind, formatter
from tests.waiting import HUNG_SECONDS

log = logging.getLogger("te-test")
DIGITS = re.compile("[0-9]")


class Pipe(io.StringIO):
    """Records each write, in place of the pipe to Dramatiq's parent process."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.written = threading.Semaphore(0)

    def write(self, text: str) -> int:
        self.writes.append(text)
        self.written.release()
        return len(text)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    root, pipe = logging.getLogger(), Pipe()
    before, level = root.handlers[:], root.level
    root.handlers[:] = [logging.StreamHandler(pipe)]
    root.setLevel(logging.INFO)
    yield pipe
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
def gathered(pipe: Pipe) -> Iterator[GatheredLog]:
    gathered = GatheredLog()
    gathered.start()
    yield gathered
    gathered.stop()


def test_lines_are_written_in_batches(pipe: Pipe, gathered: GatheredLog) -> None:
    for number in range(MAX_LINES):
        log.info("line %d", number)
    text = ""
    while text.count("\n") < MAX_LINES:
        assert pipe.written.acquire(timeout=HUNG_SECONDS)
        text = "".join(pipe.writes)
    assert text == "".join(f"line {number}\n" for number in range(MAX_LINES))
    assert len(pipe.writes) < MAX_LINES / 2


def only_handler(pipe: Pipe, style: str) -> None:
    """Remove the handlers of the test runner, which need records."""
    handler = logging.StreamHandler(pipe)
    handler.setFormatter(formatter(style))
    logging.getLogger().handlers[:] = [handler]


KIND = LineKind[str](log, lambda subject: f"about {subject}", lambda subject: {"subject": subject})


@pytest.mark.parametrize("style", ["text", "json"])
def test_line_without_a_record_is_formatted_as_a_record_and_keeps_its_place(pipe: Pipe, style: str) -> None:
    only_handler(pipe, style)
    log_line(KIND, "a\nb")
    gathered = GatheredLog()
    gathered.start()
    log_line(KIND, "a\nb")
    log.info("the last")
    gathered.stop()
    record, line, last, end = "".join(pipe.writes).split("\n")
    assert (DIGITS.sub("", record), end) == (DIGITS.sub("", line), "")
    assert "the last" in last


def test_line_that_cannot_be_formatted_costs_no_other_line(pipe: Pipe) -> None:
    only_handler(pipe, "json")
    gathered = GatheredLog()
    gathered.start()
    log_line(LineKind[str](log, str.upper, lambda subject: {"missing": {}[subject]}), "a")
    log.info("the last")
    gathered.stop()
    bad, last, _ = "".join(pipe.writes).split("\n")
    assert bad == "cannot format a line of te-test: KeyError"
    assert "the last" in last


def test_handler_of_another_kind_gets_a_record_of_each_line(pipe: Pipe, caplog: pytest.LogCaptureFixture) -> None:
    only_handler(pipe, "text")
    logging.getLogger().addHandler(caplog.handler)
    gathered = GatheredLog()
    gathered.start()
    log_line(KIND, "a")
    gathered.stop()
    log_line(KIND, "b")
    assert [record.getMessage() for record in caplog.records] == ["about a", "about b"]
    assert "".join(pipe.writes).count("about") == 2


def test_single_line_is_written_soon(pipe: Pipe, gathered: GatheredLog) -> None:
    for line in ("first", "second"):
        log.info(line)
        assert pipe.written.acquire(timeout=HUNG_SECONDS)
    assert pipe.writes == ["first\n", "second\n"]


def test_warning_is_written_at_once_after_earlier_lines(pipe: Pipe, gathered: GatheredLog) -> None:
    log.info("before")
    log.warning("now")
    assert "".join(pipe.writes) == "before\nnow\n"


def test_stop_writes_all_lines(pipe: Pipe, gathered: GatheredLog) -> None:
    log.info("last")
    gathered.stop()
    assert pipe.writes == ["last\n"]
    log.info("later")
    assert pipe.writes == ["last\n", "later\n"]


def test_failed_write_raises_nothing_in_the_caller_and_blocks_no_later_line(
    pipe: Pipe, gathered: GatheredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = threading.Semaphore(0)
    monkeypatch.setattr(threading, "excepthook", lambda _: died.release())
    monkeypatch.setattr(logging, "raiseExceptions", False)

    def fail(_text: str) -> int:  # an error that no pipe raises
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(pipe, "write", fail)
        log.warning("the logging thread continues")
        log.info("the writer thread dies")
        assert died.acquire(timeout=HUNG_SECONDS)
    log.info("later")
    assert pipe.writes == ["later\n"]


def test_stream_that_nobody_reads_stops_no_caller(
    pipe: Pipe, gathered: GatheredLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_read, begun = threading.Event(), threading.Event()

    def hang(text: str) -> int:
        begun.set()
        assert is_read.wait(HUNG_SECONDS)
        pipe.writes.append(text)
        return len(text)

    monkeypatch.setattr(gathered_log, "PATIENCE_SECONDS", 0.01)
    with monkeypatch.context() as unread:
        unread.setattr(pipe, "write", hang)
        log.info("held")
        assert begun.wait(HUNG_SECONDS)

        def call() -> None:
            for number in range(MAX_KEPT + 1):
                log.info("%d", number)
            for text in ("one", "two"):
                log.warning(text)

        caller = threading.Thread(target=call, daemon=True)
        caller.start()
        caller.join(HUNG_SECONDS)
        assert not caller.is_alive()
        assert len(gathered._handlers[0]._awaited) <= 1  # noqa: SLF001 - nothing else shows what is kept
        is_read.set()
        gathered.stop()
    held, dropped, *kept = "".join(pipe.writes).splitlines()
    assert (held, dropped) == ("held", "dropped log lines that nobody read: 3")
    assert (kept[0], kept[-2:], len(kept)) == ("3", ["one", "two"], MAX_KEPT)


def test_shutdown_of_logging_writes_all_lines(pipe: Pipe, gathered: GatheredLog) -> None:
    """A worker that gives up shuts logging down this way."""
    log.info("last")
    for handler in logging.getLogger().handlers:
        handler.flush()
    assert "".join(pipe.writes) == "last\n"
