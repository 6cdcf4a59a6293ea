"""Sources of the console: its modules and templates, in `app/console` and in the folders of features."""

from pathlib import Path

APP = Path(__file__).parents[1] / "app"
_PLACES = (APP / "console", *APP.glob("features/*/pages"), *APP.glob("features/*/templates"))
MODULES = sorted(path for place in _PLACES for path in place.rglob("*.py"))
TEMPLATES = sorted(path for place in _PLACES for path in place.rglob("*.html"))
