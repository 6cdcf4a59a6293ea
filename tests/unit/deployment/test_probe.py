"""`python -m app.kernel.metrics.probe`, as container probes run it."""

import time

import pytest

from app.kernel.metrics import probe
from tests.unit.deployment.answers import answering

WORKED = 'task_executor_scheduler_chore_last_success_timestamp_seconds{chore="%s"} %f\n'


@pytest.mark.parametrize(
    ("seconds_ago", "status", "says"),
    [
        ({}, 1, "materialize has not succeeded yet"),
        ({"materialize": 1}, 1, "promote has not succeeded yet"),
        ({"materialize": 1, "promote": 61}, 1, "promote has not succeeded for 61 s"),
        ({"materialize": 59, "promote": 1}, 0, ""),
    ],
)
def test_scheduler_is_healthy_while_its_necessary_chores_succeed(
    seconds_ago: dict[str, float], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(WORKED % (chore, time.time() - ago) for chore, ago in seconds_ago.items())
    with answering(200, "/metrics", text) as port:
        assert probe.main([f"127.0.0.1:{port}"]) == 0
        assert probe.main([f"127.0.0.1:{port}", "--worked-within", "60"]) == status
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("answer", [500, None])
def test_process_without_metrics_is_unhealthy(answer: int | None) -> None:
    with answering(answer, "/metrics") as port:
        assert probe.main([f"127.0.0.1:{port}"]) == 1
