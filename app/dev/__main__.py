"""`python -m app.dev demo|serve`."""

import argparse
import sys
from importlib.util import find_spec

from app.dev.interrupt import catch_signals

_COMMANDS = ["demo", "serve"]


def main() -> int:
    """Run a command and return its exit status; failures become messages."""
    catch_signals()
    try:
        return _run(_command())
    except KeyboardInterrupt:
        print("\n  interrupted; all processes and servers are stopped")
        return 130


def _command() -> str:
    parser = argparse.ArgumentParser(prog="python -m app.dev", description="The development stack of Task Executor.")
    parser.add_argument(
        "command", choices=_COMMANDS, help="demo: run the stack and show jobs; serve: run the stack only"
    )
    return str(parser.parse_args().command)


def _run(name: str) -> int:
    if find_spec("app.dev.demo") is None:
        print("the demo and the development stack need a checkout of the repository, not its wheel", file=sys.stderr)
        return 2
    # Imported after the signal handlers are set, because the import takes a moment.
    from app.dev.demo.scenario import run_demo  # noqa: PLC0415
    from app.dev.demo.serve import serve  # noqa: PLC0415
    from app.dev.process.child import ChildError  # noqa: PLC0415
    from app.dev.stack.stack_client import ApiError  # noqa: PLC0415
    from app.dev.terminal import Terminal  # noqa: PLC0415

    terminal = Terminal()
    try:
        return (run_demo if name == "demo" else serve)(terminal)
    except (ChildError, ApiError, OSError) as error:  # OSError: a directory of another user
        terminal.line(("\nfailed:", "red"), f" {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
