"""Dramatiq's command with a given start method: `python -m tests.acceptance.start_method spawn actors …`."""

import multiprocessing
import sys

from dramatiq.cli import main

if __name__ == "__main__":  # a spawned process imports this module again
    multiprocessing.set_start_method(sys.argv.pop(1))
    sys.exit(main())
