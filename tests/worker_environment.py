"""Import this before anything from `actors`, a composition root that reads the environment when it is imported.

It connects to nothing before Dramatiq boots the worker. The environment is left as it was: later tests start
processes that would believe the address below.
"""

import importlib
import os
from unittest.mock import patch

with patch.dict(os.environ, {"TE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nowhere"}):
    importlib.import_module("actors")
