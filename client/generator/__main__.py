"""`python -m client.generator < openapi.json`: rewrite the generated modules of the client."""

import json
import sys
from pathlib import Path

from client.generator.modules import modules_of

FOLDER = Path(__file__).parents[1] / "task_executor_client"

if __name__ == "__main__":
    for name, text in modules_of(json.load(sys.stdin)).items():
        (FOLDER / name).write_text(text)
