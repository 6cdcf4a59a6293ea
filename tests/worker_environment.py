"""Import this before anything from `actors`, a composition root that reads the environment when it is imported.

It connects to nothing before Dramatiq boots the worker.
"""

import os

os.environ.setdefault("TE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nowhere")
