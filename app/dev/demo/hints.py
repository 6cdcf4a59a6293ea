"""Hints for manual requests."""

from rich.text import Text

from app.dev.demo.demo_job import DemoJob
from app.dev.stack.runner import Stack
from app.dev.terminal import Part, Terminal


def show_hints(stack: Stack, terminal: Terminal, job: DemoJob | None = None) -> None:
    """Print the address, a key and some requests at once, because processes write to the terminal too."""
    key = stack.api.key
    lines: list[Part] = [
        Text("\nTry it yourself", "bold"),
        f"  API  {stack.url}",
        f"  key  {key}",
        "",
        f"  export TE='{stack.url}' AUTH='Authorization: Bearer {key}'",
        *(f"  {curl}" for curl in _curls(job)),
        "",
        Text(f"  logs of the processes: {stack.logs}/", "dim"),
    ]
    terminal.line(Text("\n").join(Text.assemble(line) for line in lines))


def _curls(job: DemoJob | None) -> list[str]:
    curl = 'curl -sS -H "$AUTH"'
    if job is None or job.execution is None:
        return [f"{curl} $TE/{path}" for path in ("endpoints", "jobs", "payload-specs")]
    body = (
        f'{{"endpoint":"{job.endpoint}","trigger":"IMMEDIATE","idempotency_key":"mine-1",'
        '"input":{"order_id":"mine-1","amount":9.5}}'
    )
    return [
        f"{curl} $TE/jobs -H 'Content-Type: application/json' -d '{body}'",
        f'{curl} "$TE/jobs?limit=5"',
        f"{curl} $TE/executions/{job.execution['execution_id']}/attempts",
    ]
