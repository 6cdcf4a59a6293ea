"""README, tutorials and how-tos as shell scripts: the blocks that run against the stack of `make dev`."""

import subprocess
from pathlib import Path

from app.dev.process.ports import free_port
from tests.cases import choice_of
from tests.code_blocks import DOCS, ROOT, RUN_BY, Block, blocks_of, runs_of, script_of

PATH = "tests/acceptance/dev/page_scripts.py"  # in the comments before blocks: see `runs_of`
LAST = "how-to/rotate-keys.md"  # changes the key of the secrets
ARRIVED = {
    "README.md": ['"status":"SUCCESS"', "/ok/welcome", "'endpoint': 'welcome-2'"],
    "tutorial/first-job.md": ["/ok/reminder", "SUCCESS\n"],
    "tutorial/receiving.md": ['["o-1"]'],
    "tutorial/django.md": ['{"welcomes": ["ada@example.org", "bob@example.org"]}', "no card\n"],
}
# curl fails at a refused request, and the client and the receiver come from this checkout.
PREFACE = f"""
set -euo pipefail
te() {{ curl -sS --fail-with-body -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' "$@"; }}
export PYTHONPATH={ROOT}:{ROOT}/client:{ROOT}/receiver
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
"""
# A page's server listens on the port of the next page's server.
END = "kill $(jobs -p) 2> /dev/null && wait || true"


def pages() -> list[str]:
    """Return the pages with blocks that run here, in their order."""
    found = [page.relative_to(DOCS).as_posix() for page in DOCS.glob("*/*.md") if _steps_of(page)]
    return sorted(found, key=lambda name: (name == LAST, name))


def _steps_of(page: Path) -> list[Block]:
    return [block for block, run in zip(blocks_of(page), runs_of(page), strict=True) if run == RUN_BY + PATH]


def run(exports: str, folder: Path) -> None:
    """Run README and a third of the pages in one shell, below an empty folder; `exports` is what `make dev` prints."""
    (folder / "checkout").mkdir()
    (folder / "checkout" / "receiver").symlink_to(ROOT / "receiver")
    port = free_port()
    chosen = choice_of(pages(), 3)
    scripts = [exports, PREFACE, f"export PORT={port}", _first_steps()]
    for page in (page for page in pages() if page in chosen):
        scripts += [f"cd {folder}/checkout; echo '--- {page}'", script_of(*_steps_of(DOCS / page)), END]
    scripts.insert(-2, "flask --app app doctor")
    script = "\n".join(scripts).replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    done = subprocess.run(["bash", "-c", script], text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("README.md", *chosen):
        for arrived in ARRIVED.get(page, []):
            assert arrived in done.stdout, done.stdout


def _first_steps() -> str:
    """Return the steps in README, whose blocks stand in the cells of a table: by curl, then in Python."""
    steps = [block for block in blocks_of(ROOT / "README.md") if block.text.startswith(("te $TE", "import os"))]
    assert [block.language for block in steps] == ["sh", "python"]
    return script_of(*steps)
