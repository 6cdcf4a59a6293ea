"""`python -m tests.acceptance.start_method spawn actors …`: Dramatiq's command with another way to start processes."""

import multiprocessing
import sys

from dramatiq.cli import main

if __name__ == "__main__":  # a spawned process imports this file too
    multiprocessing.set_start_method(sys.argv.pop(1))
    sys.exit(main())
