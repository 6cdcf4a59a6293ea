"""`python -m app.kernel.metrics.probe`, as probes of containers run it."""

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
def test_a_scheduler_is_well_while_it_does_what_each_job_needs(
    seconds_ago: dict[str, float], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(WORKED % (chore, time.time() - ago) for chore, ago in seconds_ago.items())
    with answering(200, "/metrics", text) as port:
        assert probe.main([f"127.0.0.1:{port}"]) == 0
        assert probe.main([f"127.0.0.1:{port}", "--worked-within", "60"]) == status
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("answer", [500, None])
def test_what_does_not_tell_its_metrics_is_not_well(answer: int | None) -> None:
    with answering(answer, "/metrics") as port:
        assert probe.main([f"127.0.0.1:{port}"]) == 1
