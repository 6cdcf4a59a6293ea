"""A canary of each kind of secret, echoed in each way: nothing of it can be read afterwards."""

from app.catalog.scrub import Scrubber
from tests.cases import each_case
from tests.unit.catalog.canaries import ECHOES, SECRETS
from tests.unit.catalog.readings import leaks

AROUND = ('{{"error": "0 access with \\"{}\\"", "code": 403}}', "<p>Cannot POST <i>{}</i></p>", "{}", "?k={}&n=1")


def most_readable(secret: str) -> int:
    """Return how many characters in a row may be left: seven of a long secret, fewer than half of a short one."""
    return min(7, max(len(secret) // 2, 3))


@each_case("echo", ECHOES.values(), ids=ECHOES)
@each_case("kind", SECRETS)
def test_no_canary_can_be_read(kind, echo):
    secret, parts = SECRETS[kind]
    scrubber = Scrubber([secret, "another-secret-of-the-endpoint"])
    for said in (secret, *parts):
        for around in AROUND:
            scrubbed = scrubber.text(around.format(echo(said)))
            assert leaks(scrubbed, said, most_readable(said)) == set(), f"{echo(said)}\n=> {scrubbed}"
