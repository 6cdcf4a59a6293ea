"""conftest.py of Dramatiq's tests: its fixtures, over a worker of the service that the environment names."""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
import pytest
from dramatiq import Worker
from dramatiq.rate_limits import backends as rate_limit_backends
from dramatiq.results import backends as result_backend_classes
from suite_broker import SuiteBroker
from suite_common import worker
from task_executor_dramatiq import ExecutionsBackend, ExecutionsLimiterBackend

logging.basicConfig(level=logging.INFO)


@contextmanager
def running(broker: SuiteBroker) -> Iterator[SuiteBroker]:
    broker.emit_after("process_boot")
    dramatiq.set_broker(broker)
    yield broker
    broker.flush_all()
    broker.close()


@pytest.fixture
def stub_broker() -> Iterator[SuiteBroker]:
    with running(SuiteBroker()) as broker:
        yield broker


@pytest.fixture
def redis_broker() -> Iterator[SuiteBroker]:
    with running(SuiteBroker(fail_fast_default=False)) as broker:
        yield broker


@pytest.fixture
def rabbitmq_broker(redis_broker: SuiteBroker) -> SuiteBroker:
    return redis_broker


@pytest.fixture
def stub_worker(stub_broker: SuiteBroker) -> Iterator[Worker]:
    with worker(stub_broker, worker_timeout=100, worker_threads=32) as started:
        yield started


@pytest.fixture
def redis_worker(redis_broker: SuiteBroker) -> Iterator[Worker]:
    with worker(redis_broker, worker_threads=32) as started:
        yield started


@pytest.fixture
def rabbitmq_worker(redis_worker: Worker) -> Worker:
    return redis_worker


@pytest.fixture
def info_logging() -> Iterator[None]:
    logger = logging.getLogger()
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(logging.DEBUG)


@pytest.fixture
def start_cli() -> Iterator[Callable[..., Any]]:
    started = []

    def run(broker_module: str, *, extra_args: list[str] | None = None, **kwargs: Any) -> Any:
        kwargs.setdefault("bufsize", 0)
        command = [sys.executable, "-m", "dramatiq", broker_module, *(extra_args or [])]
        started.append(subprocess.Popen(command, **kwargs))
        return started[-1]

    yield run
    for process in started:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def stub_rate_limiter_backend() -> Any:
    return rate_limit_backends.StubBackend()


@pytest.fixture
def executions_rate_limiter_backend() -> Iterator[ExecutionsLimiterBackend]:
    broker = SuiteBroker()
    broker.forget_limits()
    backend = ExecutionsLimiterBackend(broker)
    yield backend
    backend.close()
    broker.close()


@pytest.fixture(params=["stub", "executions"])
def rate_limiter_backend(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_rate_limiter_backend")


@pytest.fixture
def stub_result_backend() -> Any:
    return result_backend_classes.StubBackend()


@pytest.fixture
def executions_result_backend(stub_broker: SuiteBroker) -> ExecutionsBackend:
    return ExecutionsBackend(stub_broker)


@pytest.fixture
def result_backends(stub_result_backend: Any, executions_result_backend: Any) -> dict[str, Any]:
    return {"stub": stub_result_backend, "executions": executions_result_backend}


@pytest.fixture(params=["stub", "executions"])
def result_backend(request: pytest.FixtureRequest, result_backends: dict[str, Any]) -> Any:
    return result_backends[request.param]


@pytest.fixture
def redis_result_backend() -> Any:
    """A backend that the only test with it never uses, so there is no server."""
    return result_backend_classes.RedisBackend()
