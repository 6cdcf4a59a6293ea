"""Page of the simulation: each option that it names exists."""

import re
from pathlib import Path

from app.features.simulate.cli import command

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "simulate.md"


def test_each_option_of_the_page_exists() -> None:
    options = {option for parameter in command.params for option in parameter.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE.read_text()))
    assert named - options == {"--app"}
