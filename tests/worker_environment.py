"""Import this before any module of `actors`, which reads the environment at import.

Importing `actors` opens no connection; Dramatiq connects when the worker boots. The environment is restored afterwards:
processes that later tests start must not inherit the address below.
"""

import importlib
import os
from unittest.mock import patch

with patch.dict(os.environ, {"TE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nowhere"}):
    importlib.import_module("actors")
