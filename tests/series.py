"""All metric series: of the kernel, and of each feature with a `metrics.py`."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from app.features import FEATURES
from app.kernel.metrics import series
from app.kernel.metrics.series import SERIES

MODULES: list[ModuleType] = [
    series,
    *(
        import_module(f"app.features.{feature.name}.metrics")
        for feature in FEATURES
        if find_spec(f"app.features.{feature.name}.metrics") is not None
    ),
]

__all__ = ["MODULES", "SERIES"]
