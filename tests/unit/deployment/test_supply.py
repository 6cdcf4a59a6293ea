"""What an installation brings along: its licences are listed, and are such as may be passed on."""

import re
from pathlib import Path

from tests.unit.deployment.test_containers import canonical, versions

LIST = Path(__file__).parents[3] / "docs" / "licences.md"
# Whoever passes the product on under its own licence may pass these on with it.
PERMITTED = re.compile(
    r"Apache|BSD|MIT|PSF|Python Software Foundation|GNU (Library or )?Lesser General Public License|\bAND\b|\bOR\b"
)


def test_every_locked_version_has_a_licence_that_lets_us_pass_it_on() -> None:
    rows = re.findall(r"^\| (\S+) +\| (\S+) +\| (.+?) +\|$", LIST.read_text(), re.MULTILINE)
    listed = {canonical(name): version for name, version, _ in rows if name != "Name"}
    locked = versions("requirements.lock")
    assert listed == {name: locked[name] for name in locked if name != "setuptools"}, "run make licences"
    licences = {licence for name, _, licence in rows if name != "Name"}
    assert [licence for licence in licences if not PERMITTED.search(licence) or "UNKNOWN" in licence] == []
