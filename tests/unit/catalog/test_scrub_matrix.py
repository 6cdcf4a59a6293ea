"""Each kind of secret in each encoding of an echo: scrubbing leaves nothing readable."""

import pytest

from app.catalog.scrub import Scrubber
from tests.cases import choice_of, each_case
from tests.unit.catalog.canaries import ECHOES, SECRETS
from tests.unit.catalog.readings import leaks

AROUND = ('{{"error": "0 access with \\"{}\\"", "code": 403}}', "<p>Cannot POST <i>{}</i></p>", "{}", "?k={}&n=1")


def most_readable(secret: str) -> int:
    """Return how many adjacent characters may remain: seven of a long secret, less than half of a short secret."""
    return min(7, max(len(secret) // 2, 3))


@pytest.mark.sampled
@each_case("way", choice_of([*ECHOES], 3))
@each_case("kind", SECRETS)
def test_scrubbed_secret_cannot_be_read(kind, way):
    echo = ECHOES[way]
    secret, parts = SECRETS[kind]
    scrubber = Scrubber([secret, "another-secret-of-the-endpoint"])
    for part in (secret, *parts):
        for around in AROUND:
            scrubbed = scrubber.text(around.format(echo(part)))
            assert leaks(scrubbed, part, most_readable(part)) == set(), f"{echo(part)}\n=> {scrubbed}"
